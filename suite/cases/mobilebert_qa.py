"""mobilebert_qa: MobileBertForQuestionAnswering in inference, the CPU walkthrough's model."""

from __future__ import annotations

import re
from typing import Any

from suite.bundle.schema import Case, ProfilerSchedule, Tensor, Weights
from suite.cases.contract import DTYPES, PRECISIONS, Built, Context, Place, Workload, parse, stay
from suite.cases.mobilebert_weights import MODEL_ID, locate, resolve

NAME = "mobilebert_qa"
GRAMMAR = "b<batch>-s<sequence>-<dtype>[-l<layers>][-sdpa]"
PATTERN = re.compile(
    r"b(?P<batch>[1-9]\d*)-s(?P<sequence>[1-9]\d*)-(?P<dtype>[a-z]+\d+)(?:-l(?P<layers>[1-9]\d*))?(?P<sdpa>-sdpa)?"
)
LAYERS = 24
VOCABULARY = 30522
"""Layers and size of the vocabulary of MobileBERT's default configuration and of the published model."""

ONE_STEP = ProfilerSchedule(wait=1, warmup=1, active=1, repeat=1)
WALKTHROUGH = ProfilerSchedule(skip_first=10, wait=5, warmup=5, active=1, repeat=5)


def describe(variant: str, context: Context) -> Case:
    """The plan's row of a variant: token ids (batch, sequence), drawn uniformly from the vocabulary.

    Attention is the walkthrough's plain one ("eager" in transformers' words: two batched products and a softmax), or torch's
    scaled_dot_product_attention with `-sdpa`. A reduced number of layers never uses published weights.
    """
    match = parse(NAME, GRAMMAR, PATTERN, variant)
    batch, sequence, dtype = int(match["batch"]), int(match["sequence"]), DTYPES[match["dtype"]]
    layers = int(match["layers"]) if match["layers"] else None
    weights = resolve(context.model_dir, context.model_revision) if layers is None else None
    if weights is None:
        shape = "the default configuration" if layers is None else f"the default configuration cut to {layers} layers"
        weights = Weights(source="random", description=f"random weights from the seed, in {shape}")
    paper = context.preset == "paper"
    return Case(
        name=f"{NAME}/{variant}",
        workload=NAME,
        variant=variant,
        title=f"MobileBERT question answering, batch {batch}, {sequence} tokens, {dtype}",
        parameters={
            "batch": batch,
            "sequence": sequence,
            "dtype": dtype,
            "layers": layers,
            "attention": "sdpa" if match["sdpa"] else "eager",
            "vocabulary": VOCABULARY,
        },
        inputs=[
            Tensor(
                name="input_ids",
                shape=[batch, sequence],
                dtype="int64",
                distribution=f"uniform integers in [0, {VOCABULARY})",
            )
        ],
        dtype=dtype,
        annotation=NAME,
        schedule=WALKTHROUGH if paper else ONE_STEP,
        weights=weights,
        warmup_iterations=10 if paper else None,
        measured_iterations=50 if paper else None,
        notes=[f"weights: {weights.description}"],
        matmul_precision=PRECISIONS.get(match["dtype"], "highest"),
    )


def build(case: Case, seed: int, place: Place = stay) -> Built:
    """The model in eval mode and its token ids, both from `seed`; published weights where the plan resolved some."""
    import copy

    import torch

    dtype = getattr(torch, case.dtype)
    model = place(_model(case, seed).to(dtype).eval())
    generator = torch.Generator().manual_seed(seed)
    ids = place(torch.randint(0, case.parameters["vocabulary"], tuple(case.inputs[0].shape), generator=generator))

    def mobilebert_qa(input_ids: torch.Tensor) -> Any:
        return model(input_ids=input_ids)

    def reference() -> Any:
        return copy.deepcopy(model).double()(input_ids=ids)

    return Built(mobilebert_qa, (ids,), reference)


def _model(case: Case, seed: int) -> Any:
    import os

    # The plan has resolved the weights; a worker never asks a hub, and never waits for one.
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers import MobileBertConfig, MobileBertForQuestionAnswering

    attention = case.parameters["attention"]
    folder = locate(case.weights) if case.weights is not None else None
    if folder is not None:
        return MobileBertForQuestionAnswering.from_pretrained(
            str(folder), attn_implementation=attention, local_files_only=True
        )
    options = {} if case.parameters["layers"] is None else {"num_hidden_layers": case.parameters["layers"]}
    torch.manual_seed(seed)
    return MobileBertForQuestionAnswering(MobileBertConfig(attn_implementation=attention, **options))


WORKLOAD = Workload(
    name=NAME,
    title=f"MobileBertForQuestionAnswering ({MODEL_ID}, or random weights)",
    grammar=GRAMMAR,
    variants={
        "smoke": ("b1-s32-fp32-l2",),
        "quick": ("b8-s128-fp32",),
        "standard": ("b1-s128-fp32", "b8-s128-fp32", "b8-s128-fp32-sdpa", "b32-s128-fp32"),
        "paper": ("b128-s128-fp32",),
    },
    device_variants={
        "cuda": {
            "smoke": ("b1-s32-fp32-l2-hot",),
            "quick": ("b8-s128-fp32-hot", "b8-s128-tf32-hot", "b8-s128-bf16-hot"),
            "standard": (
                "b8-s128-fp32-hot",
                "b8-s128-tf32-hot",
                "b8-s128-bf16-hot",
                "b8-s128-bf16-sdpa-hot",
                "b32-s128-fp32-hot",
                "b32-s128-tf32-hot",
                "b32-s128-bf16-hot",
            ),
            "paper": ("b128-s128-fp32-hot", "b128-s128-tf32-hot", "b128-s128-bf16-hot"),
        }
    },
    describe=describe,
    build=build,
    check_again=lambda case: locate(case.weights) if case.weights else None,
    setup_estimate_s=lambda case: 10 + 3.5 * (case.parameters["layers"] or LAYERS),
)
