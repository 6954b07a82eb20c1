"""The file of a capsule: what is written is read, and nothing else is."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import stat
import zipfile
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.simulation.capture.capsule import Capsule, CapturedRecord, GraphIdentity, Kind
from streamactors.simulation.capture.capsule_file import MANIFEST, read_capsule, write_capsule
from streamactors.simulation.capture.errors import CapsuleError
from tests.simulation.capture.capsules import capsule_of, record, slice_of

FULL = capsule_of(
    slice_of([record(3, b"a", key=b"k", headers=[("h", b"1"), ("h", None), ("é", b"")]), record(9, None)], committed=4),
    slice_of([], partition=1, begin=17, end=17),
    slice_of([record(0, b"\xff\x00", topic="t", key=None)], topic="t"),
    kinds={"t": Kind.TABLE},
    settings={"t": {"cleanup.policy": "compact"}},
    graph=GraphIdentity("a:b", ("source", "sink"), "00"),
    redacted_by="m:f",
    notes=("a note",),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "a.capsule"
    write_capsule(FULL, found)
    return found


def rewritten(path: Path, **members: bytes) -> Path:
    """Put other members into the file; `manifest` stands for manifest.json, `slice0` for the first slice."""
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    held |= {{"manifest": MANIFEST, "slice0": "slices/0.msgpack"}[name]: data for name, data in members.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in held.items():
            archive.writestr(name, data)
    return path


def manifest(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        found: dict[str, Any] = json.loads(archive.read(MANIFEST))
    return found


def test_what_is_written_is_read(path: Path) -> None:
    assert read_capsule(path) == FULL


some_bytes = st.none() | st.binary(max_size=20)
some_headers = st.lists(st.tuples(st.text(max_size=5), some_bytes), max_size=3).map(tuple)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 1 << 62), some_bytes, some_bytes, some_headers), max_size=8))
def test_any_record_is_read_as_it_was(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    records = [CapturedRecord("in", 0, 2 * at, *row) for at, row in enumerate(rows)]
    capsule = capsule_of(slice_of(records))
    found = tmp_path_factory.mktemp("any") / "x.capsule"
    write_capsule(capsule, found)
    assert read_capsule(found) == capsule


def test_equal_capsules_are_equal_files_that_only_their_owner_reads(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "b.capsule"
    write_capsule(FULL, other)
    assert other.read_bytes() == path.read_bytes()
    assert stat.S_IMODE(other.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_nothing_beside_it(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    broken: Any = capsule_of(slice_of([record(0, b"x", headers=[("h", object())])]))
    with pytest.raises(TypeError):
        write_capsule(broken, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]
    with pytest.raises(CapsuleError, match="cannot write the capsule"):
        write_capsule(FULL, tmp_path / "no-folder" / "x.capsule")


def test_a_truncated_file_is_told_apart_from_a_foreign_one(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    for size in range(4, len(whole), 97):
        path.write_bytes(whole[:size])
        with pytest.raises(CapsuleError, match="truncated or damaged"):
            read_capsule(path)
    for foreign in (b"", b"PK", b"hello", pickle.dumps({"format": "streamactors capsule"}), b"\x00" * 5_000):
        path.write_bytes(foreign)
        with pytest.raises(CapsuleError, match="is no capsule: it does not begin as one"):
            read_capsule(path)
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(CapsuleError, match="a zip without manifest"):
        read_capsule(tmp_path / "z.zip")
    with pytest.raises(CapsuleError, match=r"its manifest\.json is that of something else"):
        read_capsule(rewritten(path_of(FULL, path), manifest=b'{"format": "another"}'))


def path_of(capsule: Capsule, path: Path) -> Path:
    write_capsule(capsule, path)
    return path


def test_no_changed_byte_is_taken_for_what_was_written(path: Path) -> None:
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        try:
            found = read_capsule(path)
        except CapsuleError:
            continue
        assert found == FULL  # a byte that says nothing, such as a date of the zip


def test_records_that_do_not_have_their_checksum_are_refused(path: Path) -> None:
    with pytest.raises(CapsuleError, match="in-0 do not have their checksum"):
        read_capsule(rewritten(path, slice0=msgpack.packb((3, 0, None, b"other", ()))))


@pytest.mark.parametrize(
    "row",
    [
        (3, 0, b"k", "text", ()),
        (-1, 0, b"k", b"v", ()),
        ("3", 0, b"k", b"v", ()),
        (3, None, b"k", b"v", ()),
        (3, 0, b"k", b"v", ((1, b"v"),)),
        (3, 0, b"k", b"v"),
        {"offset": 3},
        7,
    ],
)
def test_rows_of_another_form_are_refused_though_their_checksum_is_right(path: Path, row: Any) -> None:
    data = msgpack.packb(row)
    told = manifest(path)
    told["slices"][0] |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "records": 1}
    with pytest.raises(CapsuleError, match="damaged"):
        read_capsule(rewritten(path, slice0=data, manifest=json.dumps(told).encode()))


def test_records_out_of_order_are_refused(path: Path) -> None:
    data = b"".join(msgpack.packb((offset, 0, None, b"v", ())) for offset in (4, 3))
    told = manifest(path)
    told["slices"][0] |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "records": 2}
    with pytest.raises(CapsuleError, match="in-0 has 2 records out of order"):
        read_capsule(rewritten(path, slice0=data, manifest=json.dumps(told).encode()))


def test_a_newer_version_is_named_with_the_way_out(path: Path) -> None:
    told = manifest(path) | {"version": 2, "streamactors": "9.1"}
    with pytest.raises(CapsuleError, match=r"version 2 .* reads 1: use streamactors 9\.1"):
        read_capsule(rewritten(path, manifest=json.dumps(told).encode()))


@pytest.mark.parametrize("missing", ["group", "topics", "slices", "since_ms", "notes"])
def test_a_manifest_without_a_field_is_damaged(path: Path, missing: str) -> None:
    told = manifest(path)
    del told[missing]
    with pytest.raises(CapsuleError, match="damaged"):
        read_capsule(rewritten(path, manifest=json.dumps(told).encode()))


def test_sizes_are_checked_before_and_while_reading(path: Path) -> None:
    with pytest.raises(CapsuleError, match="more than the limit of 10"):
        read_capsule(path, most_bytes=10)
    told = manifest(path)
    told["slices"][0]["bytes"] = 5  # the member is larger than it claims
    with pytest.raises(CapsuleError, match=r"slices/0\.msgpack has more than 5 bytes"):
        read_capsule(rewritten(path, manifest=json.dumps(told).encode()))


def test_a_bomb_is_not_unpacked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamactors.simulation.capture.capsule_file._MANIFEST_BYTES", 100_000)
    with pytest.raises(CapsuleError, match="has more than 100,000 bytes"):
        read_capsule(rewritten(path, manifest=b" " * 50_000_000))
    data = b"\xdd\xff\xff\xff\xff"  # an array of four billion elements that is not there
    write_capsule(FULL, path)
    told = manifest(path)
    told["slices"][0] |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "records": 1}
    with pytest.raises(CapsuleError, match="damaged"):
        read_capsule(rewritten(path, slice0=data, manifest=json.dumps(told).encode()))
