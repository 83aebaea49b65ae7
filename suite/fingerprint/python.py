"""The Python that runs the suite, and the packages that matter to what is measured."""

from __future__ import annotations

import platform
import sys
import sysconfig
from importlib import metadata

from suite.fingerprint.facts import Facts, absent, ok
from suite.fingerprint.files import without_home

PACKAGES = (
    "torch",
    "triton",
    "transformers",
    "tokenizers",
    "safetensors",
    "huggingface-hub",
    "numpy",
    "msgspec",
    "psutil",
    "intel-openmp",
    "mkl",
    "tbb",
    "intel-extension-for-pytorch",
    "nvidia-ml-py",
    "nvidia-cublas-cu12",
    "nvidia-cudnn-cu12",
    "weasyprint",
    "jinja2",
)


def read() -> Facts:
    """Facts of the interpreter and one fact a package, its version. Never raises."""
    options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    facts: Facts = {
        "version": ok(platform.python_version(), "platform.python_version()"),
        "implementation": ok(platform.python_implementation(), "platform.python_implementation()"),
        "compiler": ok(platform.python_compiler(), "platform.python_compiler()"),
        "optimised_build": ok("--enable-optimizations" in options, "sysconfig CONFIG_ARGS"),
        "debug_build": ok(hasattr(sys, "gettotalrefcount"), "sys.gettotalrefcount"),
        "prefix": ok(without_home(sys.prefix), "sys.prefix", "home directories are written as ~"),
        "virtual_environment": ok(sys.prefix != sys.base_prefix, "sys.prefix, sys.base_prefix"),
        "hash_seed_fixed": ok(not sys.flags.hash_randomization, "sys.flags.hash_randomization"),
    }
    for name in PACKAGES:
        source = f"importlib.metadata {name}"
        try:
            facts[f"package {name}"] = ok(metadata.version(name), source)
        except metadata.PackageNotFoundError:
            facts[f"package {name}"] = absent(source, "not installed")
        except Exception as error:  # broken metadata of one package must not hide the others
            facts[f"package {name}"] = absent(source, f"{type(error).__name__}: {error}")
    return facts
