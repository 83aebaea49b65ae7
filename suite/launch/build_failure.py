"""Why an image could not be built, from the end of its log: which step needed what, and the way round it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from suite.launch.engine_facts import message

TAIL_CHARACTERS = 40_000

NO_WAY = (
    r"no such host|could not resolve|temporary failure (?:in name resolution|resolving)|network is unreachable|connection (?:refused|"
    r"timed out|reset)|i/o timeout|no route to host|failed to establish a new connection|max retries exceeded|read timed out|"
    r"name or service not known|tls handshake timeout|certificate verify failed|unknown authority"
)

# The first that fits is taken: a full disk and a wrong hash break later steps too.
CAUSES: Sequence[tuple[str, str]] = (
    (r"no space left on device|disk quota exceeded", "there is no space left where the engine keeps its images"),
    (
        r"do not match the hashes|hashes are required",
        "a package is not the one that the lock names by its hash: it was altered, or the lock was",
    ),
    (
        rf"(?:registry|docker\.io|quay\.io|pull access denied|resolve source metadata|pinging container registry|short-name)[^\n]*"
        rf"(?:{NO_WAY}|denied|not found|did not resolve|unauthori[sz]ed|toomanyrequests)|image not known",
        "the base image needs a registry, and none gives it here: docker/offline-base builds one from a Debian mirror",
    ),
    (
        rf"(?:deb\.debian\.org|/debian|apt-get|failed to fetch|dists/)[^\n]*(?:{NO_WAY}|unable)|unable to fetch some archives|"
        r"unable to locate package",
        "the system's packages need a Debian mirror, and none answers from inside the build: name a way to one in BUILD_FLAGS, as "
        "'--network host' or '--build-arg http_proxy=...'",
    ),
    (
        rf"no matching distribution|(?:pypi|pip|files\.pythonhosted|download\.pytorch|/simple/)[^\n]*(?:{NO_WAY})|"
        r"setup: installing [^\n]*failed",
        "the locked Python packages need a package index, and none answers from inside the build: name a way to one, or a folder of "
        "wheels, in BUILD_FLAGS",
    ),
    (NO_WAY, "a step needs the network and finds no way out: name one in BUILD_FLAGS"),
    (
        r"insufficient UIDs or GIDs|no subuid ranges|/etc/subuid",
        "this user has no range of user ids for the image's files: as root, add one to /etc/subuid and /etc/subgid",
    ),
    (r"exec format error|does not match the specified platform", "the base image is for another processor"),
    (r"permission denied|operation not permitted", "a step is not permitted to this user or engine"),
)


def why(log: Path) -> str:
    """The cause in a clause; empty when the log shows none that is known. Never raises."""
    try:
        text = log.read_text(errors="replace")[-TAIL_CHARACTERS:]
    except OSError:
        return ""
    # What a step is going to do, as podman and docker announce it, is no sign of what went wrong.
    text = "\n".join(line for line in text.splitlines() if not re.match(r"STEP \d+/\d+: |#\d+ \[", line))
    for pattern, cause in CAUSES:
        if re.search(pattern, text, re.IGNORECASE):
            return cause
    # The recipe's own last sentence (docker/image), else the engine's.
    own = re.findall(r"^image: (.+)$", text, re.MULTILINE)
    said = (
        message(own[-1])
        if own
        else message("\n".join(reversed([line for line in text.splitlines() if re.search(r"\berror\b", line, re.I)])))
    )
    return f"it ends with: {said}" if said else ""
