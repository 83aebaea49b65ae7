"""The Python interpreter, and the packages that it sees."""

from __future__ import annotations

import platform
import sys
import sysconfig

from suite.fingerprint.facts import Facts, ok
from suite.fingerprint.files import without_home
from suite.fingerprint.software import packages


def read() -> Facts:
    """Facts of the interpreter and of all packages. Never raises."""
    options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    return {
        "version": ok(platform.python_version(), "platform.python_version()"),
        "implementation": ok(platform.python_implementation(), "platform.python_implementation()"),
        "compiler": ok(platform.python_compiler(), "platform.python_compiler()"),
        "optimised_build": ok("--enable-optimizations" in options, "sysconfig CONFIG_ARGS"),
        "link_time_optimised_build": ok("--with-lto" in options, "sysconfig CONFIG_ARGS"),
        "debug_build": ok(hasattr(sys, "gettotalrefcount"), "sys.gettotalrefcount"),
        "prefix": ok(without_home(sys.prefix), "sys.prefix", "a user's own folders are not shown"),
        "virtual_environment": ok(sys.prefix != sys.base_prefix, "sys.prefix, sys.base_prefix"),
        "hash_seed_fixed": ok(not sys.flags.hash_randomization, "sys.flags.hash_randomization"),
        **packages.read(),
    }
