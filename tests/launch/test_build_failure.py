"""Why an image could not be built: the ends of real logs, and the step that each names."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.launch import build_failure

APT = "E: Failed to fetch http://mirror.example/debian/dists/bookworm/InRelease  Temporary failure resolving 'mirror.example'"
REGISTRY = (
    "Error: creating build container: initializing source docker://debian:bookworm-slim: pinging container registry "
    'registry-1.docker.io: Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host'
)
BUILDX = (
    "ERROR: failed to solve: debian:bookworm-slim: failed to resolve source metadata for docker.io/library/debian:bookworm-slim: "
    "failed to do request: dial tcp: lookup registry-1.docker.io: i/o timeout"
)
PIP = (
    "WARNING: Retrying after connection broken by 'NewConnectionError(': Failed to establish a new connection: [Errno -3]')': "
    "/simple/torch/\nERROR: No matching distribution found for torch==2.13.0\nsetup: installing torch failed"
)
CERT = "pip: SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed')) /simple/x/"
HASH = (
    "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, please\n"
    "setup: installing the locked packages failed"
)


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("write /usr/lib/x.so: no space left on device", "no space left where the engine keeps its images"),
        (REGISTRY, "docker/offline-base builds one"),
        (BUILDX, "docker/offline-base builds one"),
        ("Error: creating build container: debian:bookworm-slim: image not known", "docker/offline-base builds one"),
        (APT, "need a Debian mirror"),
        (PIP, "need a package index"),
        (CERT, "need a package index"),
        (HASH, "not the one that the lock names by its hash"),
        ("curl: (6) Could not resolve host: example.org", "a step needs the network"),
        (
            "ApplyLayer: potentially insufficient UIDs or GIDs available in user namespace: Check /etc/subuid",
            "no range of user ids",
        ),
        ("exec /bin/sh: exec format error", "for another processor"),
        ('STEP 3: RUN x\nError: building at STEP "RUN x": exit status 7\n', "it ends with: building at STEP"),
        ("STEP 2/21: RUN apt-get install unable ca-certificates\n#5 [cpu 2/9] RUN pip: connection refused", ""),
        (
            "Error: exit 2\nimage: the locked packages are for x86_64",
            "it ends with: the locked packages are for x86_64",
        ),
        ("setup: installing torch 2.13.0\nsetup: ready\n", ""),
        ("", ""),
    ],
)
def test_a_log_tells_the_step_and_the_way_round(tmp_path: Path, log: str, cause: str):
    path = tmp_path / "build.log"
    path.write_text(f"STEP 1/9: FROM x\n{log}\n")
    found = build_failure.why(path)
    assert cause in found
    assert bool(cause) == bool(found)


def test_a_log_that_is_not_there_tells_nothing(tmp_path: Path):
    assert build_failure.why(tmp_path / "none.log") == ""
