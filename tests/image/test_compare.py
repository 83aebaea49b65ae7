"""Two images' trees: read from exported archives, compared, explained."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

import image_tree


def archive(
    files: dict[str, bytes], mtime: int = 1, mode: int = 0o644, links: dict[str, str] | None = None
) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), mtime, mode
            tar.addfile(member, io.BytesIO(content))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.LNKTYPE, target
            tar.addfile(member)
    stream.seek(0)
    return stream


def tree(files: dict[str, bytes], **options: object) -> image_tree.Tree:
    return image_tree.read_archive(archive(files, **options))  # type: ignore[arg-type]


def test_equal_trees_do_not_differ_and_times_are_apart():
    one, other = tree({"usr/bin/a": b"a"}, mtime=1), tree({"./usr/bin/a": b"a"}, mtime=2)
    assert image_tree.compare(one, other) == []
    assert image_tree.different_times(one, other) == ["usr/bin/a"]


def test_contents_modes_and_missing_paths_are_found():
    one = tree({"opt/a": b"1", "opt/b": b"1", "opt/only": b""})
    other = {**tree({"opt/a": b"2"}), **tree({"opt/b": b"1"}, mode=0o600), **tree({"opt/new": b""})}
    assert [(found.path, found.what) for found in image_tree.compare(one, other)] == [
        ("opt/a", "content"),
        ("opt/b", "mode"),
        ("opt/new", "only in the second"),
        ("opt/only", "only in the first"),
    ]


def test_which_of_two_hard_linked_names_is_the_file_makes_no_difference():
    one = tree({"bin/a": b"x"}, links={"bin/b": "bin/a"})
    other = tree({"bin/b": b"x"}, links={"bin/a": "bin/b"})
    assert image_tree.compare(one, other) == []


def test_what_the_engine_adds_is_left_out():
    assert set(
        tree({".dockerenv": b"", "dev/console": b"", "etc/hosts": b"1", "run/.containerenv": b"", "etc/a": b""})
    ) == {"etc/a"}


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("var/log/apt/history.log", "a log with dates"),
        ("etc/shadow", "password"),
        ("etc/passwd-", "backup"),
        ("opt/speedproof/.venv/lib/python3.11/site-packages/a/__pycache__/b.cpython-311.pyc", "byte code"),
        ("usr/bin/x86_64-linux-gnu-g++-12", "SNAPSHOT"),
    ],
)
def test_known_causes_are_explained(path: str, part: str):
    assert part in image_tree.explain(path)


def test_unknown_causes_are_not_explained_away():
    assert image_tree.explain("opt/speedproof/suite/worker.py") == ""


def test_a_listing_brings_a_tree_to_another_machine():
    one = tree({"a\tname": b"1", "b": b"2"}, links={"c": "missing"})
    assert image_tree.read_listing(image_tree.write_listing(one)) == one
    with pytest.raises(ValueError, match="unpack"):
        image_tree.read_listing(["nonsense"])


def test_every_pattern_explains_something_of_its_own():
    # A pattern behind one that covers it would never be seen.
    patterns = list(image_tree.KNOWN)
    for pattern in patterns:
        assert image_tree.explain(pattern.replace("*", "x")) == image_tree.KNOWN[pattern], pattern
    assert Path(image_tree.__file__).parent.name == "docker"
