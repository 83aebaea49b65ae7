"""`python -m tests.fingerprint.golden` compares; with --renew it writes the expectations anew, deliberately."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.fingerprint import golden


def main(arguments: list[str]) -> int:
    differing = 0
    for name in golden.machines():
        with tempfile.TemporaryDirectory() as folder:
            tree = golden.write((golden.FOLDER / f"{name}.tree").read_text(encoding="utf-8"), Path(folder))
            found = golden.encoded(golden.fingerprint(tree))
        path = golden.FOLDER / f"{name}.json"
        if path.exists() and path.read_bytes() == found:
            continue
        differing += 1
        print(f"{'renewed' if '--renew' in arguments else 'differs'}: {path.name}")
        if "--renew" in arguments:
            path.write_bytes(found)
    return int(bool(differing) and "--renew" not in arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
