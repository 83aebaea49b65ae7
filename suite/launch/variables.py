"""The user's environment variables that would make an arm another one: what each does, and whether workers are given it.

A new variable is a line in `TABLE`; one of these names' families that no line knows is taken out. Variables that steer threads, placement
and allocation (OMP_*, KMP_*, GOMP_*, MALLOC_*, LD_PRELOAD) are requests and stand: see `suite.launch.command`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Literal

from suite.bundle.schema import Finding
from suite.errors import UserError
from suite.fingerprint.effective.worker import SECRET
from suite.fingerprint.files import printable, without_home
from suite.fingerprint.redact import REMOVED

Fate = Literal["out", "idle", "kept"]
"""out: would change an arm or its time, and is taken out of workers' environment; idle: is taken out too, and changes nothing that is
measured; kept: stands, and is told."""

FAMILIES = (
    "TORCH", "PYTORCH", "MKL", "ONEDNN", "DNNL", "ATEN", "TRITON", "INDUCTOR", "AOT", "CUTLASS", "FUNCTORCH", "KINETO", "HALIDE", "TVM_",
    "PARTITIONER_",
)  # fmt: skip
"""Beginnings of the names that torch, its compilers and the libraries of its products read."""


@dataclass(frozen=True)
class Known:
    """What is known of variables whose whole names match; `effect` is a clause about them."""

    names: str
    fate: Fate
    effect: str


TABLE = (
    Known(r"TORCH_COMPILE_DISABLE|TORCHDYNAMO_DISABLE", "out", "compiled arms would be eager"),
    Known(r"TORCHDYNAMO_SUPPRESS_ERRORS", "out", "what fails to compile would run as eager without a word"),
    Known(
        r"TORCHINDUCTOR_FREEZING|TORCHDYNAMO_PREPARE_FREEZING",
        "out",
        "weights would be frozen in arms that do not say so",
    ),
    Known(
        r"TORCHINDUCTOR_CPP_WRAPPER\w*",
        "out",
        "graphs would be called by generated C++, which is another code generator",
    ),
    Known(r"TORCHINDUCTOR_CPP_SIMDLEN|TORCHINDUCTOR_VEC_ISA_OK", "out", "it sets the vectors of generated C++"),
    Known(r"TORCHINDUCTOR_CUDAGRAPHS", "out", "CUDA graphs would be used in arms that do not say so"),
    Known(
        r"TORCHINDUCTOR_(\w*AUTOTUN\w*|COORDINATE_DESCENT\w*)",
        "out",
        "kernels would be tried out in arms that do not say so",
    ),
    Known(
        r"TORCHINDUCTOR_COMPILE_THREADS|TORCHINDUCTOR_WORKER_START|TORCH_WARM_POOL",
        "out",
        "it changes how long compiling takes",
    ),
    Known(r"TORCH_COMPILE_BACKEND|TORCH_COMPILE_OVERRIDE_BACKENDS", "out", "arms would be compiled by another backend"),
    Known(
        r"TORCH_COMPILE_DEBUG|TORCH_LOGS\w*|TORCH_TRACE|TORCHDYNAMO_(VERBOSE|PRINT_\w+|REPRO_\w+)",
        "out",
        "writing logs costs time",
    ),
    Known(
        r"TORCH_CPP_LOG_LEVEL|TORCH_SHOW_DISPATCH_TRACE|PYTORCH_API_USAGE_STDERR|KINETO_\w+",
        "out",
        "writing logs costs time",
    ),
    Known(r"(TORCHINDUCTOR_CACHE_DIR|TRITON_CACHE_DIR)", "idle", "each arm has a compiler cache of the run's own"),
    Known(
        r"TORCHINDUCTOR_(FX_GRAPH|AUTOGRAD|BUNDLE|\w*REMOTE|FORCE_DISABLE|REDIS)\w*",
        "out",
        "it changes what is compiled anew",
    ),
    Known(
        r"TORCHINDUCTOR_\w+|TORCHDYNAMO_\w+|INDUCTOR_\w+|TORCH_DYNAMO_\w+",
        "out",
        "it changes what or how torch.compile compiles",
    ),
    Known(r"ATEN_CPU_CAPABILITY", "out", "eager's kernels would use fewer vector instructions than the processor has"),
    Known(
        r"TORCH_ALLOW_TF32\w*|TORCH_MKLDNN_\w+|TORCH_BLAS_\w+|TORCH_LINALG_\w+|TORCH_CUDNN_\w+",
        "out",
        "it changes how products are computed",
    ),
    Known(r"PYTORCH_NO_CUDA_MEMORY_CACHING|PYTORCH_NO_\w+", "out", "every allocation would go to the driver"),
    Known(
        r"PYTORCH_(CUDA_|HIP_)?ALLOC_CONF",
        "kept",
        "it sets torch's allocator on a GPU, in eager and compiled arms alike",
    ),
    Known(r"PYTORCH_(JIT|TENSOREXPR)\w*", "out", "it changes torch's older compiler"),
    Known(
        r"MKL_(DOMAIN_)?NUM_THREADS|MKL_DYNAMIC",
        "kept",
        "it sets how many threads MKL's products use, in eager and compiled arms alike",
    ),
    Known(r"(MKL|ONEDNN|DNNL)_VERBOSE\w*", "out", "a line is printed for each call, which costs time"),
    Known(
        r"MKL_(ENABLE_INSTRUCTIONS|DEBUG_CPU_TYPE|CBWR)|(ONEDNN|DNNL)_MAX_CPU_ISA",
        "out",
        "products would use other instructions",
    ),
    Known(r"(ONEDNN|DNNL)_DEFAULT_FPMATH_MODE", "out", "oneDNN may compute float32 products in bfloat16 or TF32"),
    Known(
        r"MKLROOT|DNNLROOT|PYTORCH_(\w*VERSION|BUILD_\w+|HOME)|TORCH_(HOME|VERSION|CUDA_ARCH_LIST|EXTENSIONS_DIR|NCCL_\w+)",
        "idle",
        "no worker needs it",
    ),
    Known(r"(MKL|ONEDNN|DNNL)\w*", "out", "it may change how products are computed"),
    Known(r"TRITON_\w+_PATH", "kept", "it says where Triton finds the driver and NVIDIA's tools"),
    Known(r"TORCH_DEVICE_BACKEND_AUTOLOAD", "kept", "it says whether torch loads other devices' extensions"),
    Known(
        r"TORCH_SHOW_CPP_STACKTRACES|TORCH_SYMBOLIZE_MODE|PYTORCH_NVML_BASED_CUDA_CHECK", "idle", "no worker needs it"
    ),
    Known(r"TRITON_\w+", "out", "it changes what Triton compiles"),
    Known(
        r"PYTHON(DEVMODE|TRACEMALLOC|MALLOC|DEBUG|VERBOSE|PROFILEIMPORTTIME)", "out", "it slows the interpreter down"
    ),
    Known(r"CXX", "kept", "it names the compiler of generated C++"),
    Known(
        r"ENABLE_\w*TMA\w*|TENSORIFY_PYTHON_SCALARS|LOG_AUTOTUNE_RESULTS|FAKE_ALLOW_META|CUTEDSL_\w+",
        "out",
        "it changes what Inductor compiles",
    ),
)
"""The first line that matches stands."""

UNKNOWN = "its effect is not known"


@dataclass(frozen=True)
class Told:
    """One variable that was set. `value` is fit to be shown: on one line, without a home directory, and not a secret's."""

    name: str
    value: str
    fate: Fate
    effect: str

    @property
    def shown(self) -> str:
        """As it is set."""
        return f"{self.name}={self.value}"

    @property
    def sentence(self) -> str:
        """What became of it."""
        fate = (
            f"{self.shown} is exported and stands"
            if self.fate == "kept"
            else f"{self.shown} is not handed on to workers"
        )
        return f"{fate}: {self.effect}"

    @property
    def finding(self) -> Finding:
        """As the fingerprint records it."""
        return Finding(
            rule="launch.variable-kept" if self.fate == "kept" else "launch.variable-taken-out",
            severity="doubtful" if self.fate == "kept" else "note",
            claim=f"{self.sentence}.",
            evidence=[f"environment of the run: {self.shown}"],
            advice="leave it out (env -u) for numbers that others can compare with" if self.fate == "kept" else "",
        )


def known(name: str) -> Known | None:
    """What is known of a variable; None where it is not of the families and no line names it."""
    for line in TABLE:
        if re.fullmatch(line.names, name):
            return line
    return Known(re.escape(name), "out", UNKNOWN) if name.startswith(FAMILIES) else None


def take_out(
    environ: MutableMapping[str, str], cleared: Mapping[str, str] | None = None, spare: Iterable[str] = ()
) -> list[Told]:
    """Take out of the environment what would change an arm or its time; tells of everything that was set, by name.

    `cleared` maps further names to what they would do (a device's own), `spare` are names that are left as they are and not told.
    """
    found = []
    for name in sorted(set(environ) - set(spare)):
        line = Known(name, "out", cleared[name]) if cleared and name in cleared else known(name)
        if line is None:
            continue
        value = REMOVED if SECRET.search(name) else printable(without_home(environ[name]))
        found.append(Told(printable(name, 80), value, line.fate, line.effect))
        if line.fate != "kept":
            del environ[name]
    return found


def refuse_if_strict(strict: bool, told: Iterable[Told]) -> None:
    """Raises UserError, naming every variable that would change an arm or its time, when `strict` was asked for."""
    changing = [each for each in told if each.fate == "out"]
    if strict and changing:
        named = "; ".join(f"{each.shown} ({each.effect})" for each in changing)
        unset = " ".join(f"-u {each.name}" for each in changing)
        raise UserError(
            f"these exported variables are not handed on to workers, and strict was asked for: {named}; "
            f"unset them (env {unset}) and start again."
        )
