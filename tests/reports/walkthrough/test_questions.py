"""The walkthrough's questions, asked of small traces that hold its numbers, and of those of other machines."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from reports.trace.notes import TraceError
from reports.walkthrough.recording import Machine, Recordings, from_file
from tests.reports.findings.recordings import Recording, real
from tests.reports.trace import corpus
from tests.reports.walkthrough import planted
from tests.reports.walkthrough.sentences import PLANTED, answers, beside


@pytest.fixture(scope="module")
def a100(tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    return planted.a100(tmp_path_factory.mktemp("a100"))


@pytest.fixture(scope="module")
def h200(tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    return planted.h200(tmp_path_factory.mktemp("h200"))


@pytest.fixture(scope="module")
def cpu(tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    def taken(name: str, arm: str) -> planted.Taken:
        return planted.Taken(name, arm, 64, "fp32", "main", real(name))

    return Recordings((taken("matmul_add-eager", "eager"), taken("matmul_add-inductor", "inductor")))


@pytest.mark.parametrize("question", PLANTED)
def test_a_question_is_answered_with_the_planted_number(a100: Recordings, question: str) -> None:
    assert PLANTED[question] in answers(a100)[question].says


@corpus.needed
@pytest.mark.parametrize("question", PLANTED)
def test_the_corpus_answers_with_the_walkthrough_s_numbers(question: str) -> None:
    files = sorted((corpus.FOLDER / "synthetic").glob("*.json"))
    found = answers(planted.taken(*files))
    assert PLANTED[question] in found[question].says
    assert not found[question].differs


def test_numbers_stand_beside_the_published_ones(a100: Recordings) -> None:
    found = answers(a100)
    assert beside(found["synchronize"])["idle in the wait"] == ("98.5 %", "98.5 %")
    assert beside(found["second-operation"])["read and written"] == ("2.03 TB/s", "2.03 TB/s")
    assert beside(found["spread"])["typical (median)"] == ("580 us", "580 us")
    assert beside(found["first-step"])["annotation to first operator, by step"][1].startswith(
        "#2 227.757 us, #3 5.521 us"
    )
    assert beside(found["heavy"])["mm: query, launch"][1] == f"{planted.QUERY}, cudaLaunchKernel"


def test_every_answer_has_evidence_from_a_recording(a100: Recordings, h200: Recordings) -> None:
    for recordings in (a100, h200):
        labels = {one.label for one in recordings.all}
        for question, answer in answers(recordings).items():
            assert answer.not_asked or answer.proofs, question
            assert {proof.recording.label for proof in answer.proofs} <= labels


def test_what_was_not_recorded_is_not_asked_and_says_what_it_needs(tmp_path: Path) -> None:
    only = planted.taken(planted.save(tmp_path, "64_bf16_cold_eager", planted.eager()))
    found = {question: answer.not_asked for question, answer in answers(only).items()}
    assert "large size (the walkthrough's is 4096)" in found["bound"]
    assert "pass wait0" in found["buffer-request"]
    assert "batch dimension" in found["batch"]
    assert "a compiled profile" in found["rows"]
    assert "inductor-reduce-overhead" in found["reduce-overhead"]
    assert not found["first-step"]


def test_another_kernel_family_launch_and_missing_query_are_told_with_their_reasons(h200: Recordings) -> None:
    told = " ".join(answers(h200)["heavy"].differs)
    assert "nvjet_sm90... are cuBLASLt's nvjet kernels for Hopper GPUs" in told
    assert "launched through cuLaunchKernelEx, not cudaLaunchKernel: the library calls the driver itself" in told
    assert "no query of the device precedes the product's 3 launches" in told
    assert "1 memset of 4 bytes a step" in told


def test_a_kernel_that_differs_in_one_word_is_not_called_the_same(h200: Recordings) -> None:
    answer = answers(h200)["same-kernel"]
    assert answer.says.startswith("No: ")
    assert "differ in one word (bz became badd)" in answer.says


def test_a_memset_between_copy_and_product_counts_as_an_operation(h200: Recordings) -> None:
    rows = beside(answers(h200)["second-operation"])
    assert rows["GPU operations a step"] == ("2 (copy, product)", "3 (copy, memset, product)")
    assert rows["copied"][1] == "32 MiB in 15.68 us"


def test_a_kernel_that_begins_at_once_is_no_offset(h200: Recordings) -> None:
    answer = answers(h200)["late-kernel"]
    assert "35.6 us after its launch: no delay of milliseconds" in answer.says
    assert any("no offset between the lanes" in text for text in answer.differs)


def test_a_first_step_without_the_gap_says_where_its_time_went_instead(h200: Recordings) -> None:
    answer = answers(h200)["first-step"]
    assert "227.757" not in answer.says and "24.824 us" in answer.says
    assert answer.differs


def test_a_step_that_is_not_dearer_is_not_called_dearer(h200: Recordings) -> None:
    answer = answers(h200)["host-price"]
    assert "1.0x" in answer.says and "not dearer" in answer.says


def test_conditions_and_times_of_the_run_stand_with_the_answers(h200: Recordings) -> None:
    machine = Machine("NVIDIA H200", ("32 of 96 blocks were slowed down: power",), {(4096, "inductor"): "1.02 times"})
    found = answers(dataclasses.replace(h200, machine=machine))
    assert "32 of 96 blocks were slowed down: power" in found["spread"].differs
    assert "Without the profiler, the whole call: 1.02 times." in found["host-price"].says


def test_a_cpu_answers_what_it_can_and_says_what_needs_a_gpu(cpu: Recordings) -> None:
    found = answers(cpu)
    for question in ("late-kernel", "buffer-request", "synchronize", "same-kernel", "reduce-overhead"):
        assert found[question].not_asked.startswith("not asked: needs a GPU"), question
    assert "No GPU's work is recorded" in found["overhead"].says
    assert found["first-step"].says.startswith("Step #")
    assert "aten::" in found["heavy"].says
    assert not found["fusion"].not_asked and not found["second-operation"].not_asked


def test_a_rule_that_the_trace_s_health_withholds_answers_nothing(tmp_path: Path) -> None:
    trace = planted.eager((5.152,) * 3, (227.757, 5.0), wait=1780.0)
    for event in trace.events:
        if event["cat"] == "kernel":
            event["dur"] = -1.0
            break
    broken = planted.taken(planted.save(tmp_path, "64_bf16_cold_eager", trace))
    answer = answers(broken)["overhead"]
    assert answer.not_asked.startswith("not answered: 64_bf16_cold_eager cannot tell (R1)")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a100_64_bf16_cold_eager.json", ("eager", 64, 1, "bf16", "cold")),
        ("8x4096_bf16_warm_eager.json.gz", ("eager", 4096, 8, "bf16", "warm")),
        ("4096_bf16_warm20_eager.json", ("eager", 4096, 1, "bf16", "active20")),
        ("64_fp32_nowait_eager.json", ("eager", 64, 1, "fp32", "wait0")),
        ("64_bf16_warm_compile_reduce-overhead.json", ("inductor-reduce-overhead", 64, 1, "bf16", "warm")),
    ],
)
def test_a_name_tells_what_was_recorded(tmp_path: Path, name: str, expected: tuple[object, ...]) -> None:
    saved = planted.save(tmp_path, "trace", planted.eager())
    found = from_file(saved.rename(tmp_path / name))
    assert (found.arm, found.size, found.batch, found.dtype, found.kind) == expected


def test_another_name_or_another_program_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="name it as the walkthrough does"):
        from_file(planted.save(tmp_path, "profile", planted.eager()))
    other = Recording().step(2, 0.25, 50).op("aten::mm", 5, 20)
    with pytest.raises(TraceError, match="no annotation matmul_add"):
        from_file(planted.save(tmp_path, "64_bf16_cold_eager", other))
