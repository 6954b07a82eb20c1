"""The file of a capsule: a zip of `manifest.json` and one member of msgpack for each partition.

    manifest.json     version, group, span, topics, and of each slice its offsets, its member's size, SHA-256 and number of records
    slices/N.msgpack  arrays [offset, timestamp_ms, key, value, [[name, value], …]], in the order of the offsets

Nothing in the file is code, and no member is extracted to disk. A reader checks sizes before it reads, and everything against the manifest."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import tempfile
import zipfile
import zlib
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgpack

from streamactors.simulation.capture.capsule import (
    Capsule,
    CapturedRecord,
    CapturedTopic,
    GraphIdentity,
    Headers,
    Kind,
    Slice,
)
from streamactors.simulation.capture.errors import CapsuleError

FORMAT: Final = "streamactors capsule"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
MOST_BYTES: Final = 1 << 30
"""The records of a capsule take at most so many bytes, packed as msgpack."""
_MANIFEST_BYTES: Final = 64 << 20
_DATE: Final = (1980, 1, 1, 0, 0, 0)


def write_capsule(capsule: Capsule, path: Path) -> int:
    """Write the file, which only its owner may read; return its size in bytes. A file that is there is replaced when the new one is complete.

    Raises CapsuleError if it cannot be written."""
    members = [_packed(each) for each in capsule.slices]
    manifest = json.dumps(_manifest(capsule, members), ensure_ascii=False, indent=1).encode()
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                    for at, data in (((MANIFEST, manifest)), *((_member(n), data) for n, data in enumerate(members))):
                        archive.writestr(_entry(at), data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return path.stat().st_size
    except OSError as error:
        raise CapsuleError(f"{path}: cannot write the capsule: {error.strerror or error}; give another file") from None


def read_capsule(path: Path, *, most_bytes: int = MOST_BYTES) -> Capsule:
    """Return the capsule in a file. Raises CapsuleError, which says what is wrong with the file."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            return _read(path, archive, most_bytes)
    except CapsuleError:
        raise
    except OSError as error:
        raise CapsuleError(f"{path}: cannot read the capsule: {error.strerror or error}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise CapsuleError(_damaged(path, error)) from None
    except (KeyError, TypeError, ValueError, RecursionError, msgpack.UnpackException) as error:
        raise CapsuleError(
            f"{path}: the capsule is damaged: {type(error).__name__}: {error}; capture the group again"
        ) from None


def _damaged(path: Path, error: Exception) -> str:
    with path.open("rb") as file:
        begin = file.read(4)
    if begin == b"PK\x03\x04":
        return f"{path}: the capsule is truncated or damaged ({error}); copy it again, or capture the group again"
    return f"{path} is no capsule: it does not begin as one; `streamactors capture` makes capsules"


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _entry(name: str) -> zipfile.ZipInfo:
    """Return an entry without the time of day: equal capsules are equal files."""
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _member(number: int) -> str:
    return f"slices/{number}.msgpack"


def _packed(each: Slice) -> bytes:
    packer = msgpack.Packer(autoreset=False)
    for record in each.records:
        packer.pack((record.offset, record.timestamp_ms, record.key, record.value, record.headers))
    return bytes(packer.bytes())


def _manifest(capsule: Capsule, members: list[bytes]) -> dict[str, Any]:
    graph = capsule.graph
    return {
        "format": FORMAT,
        "version": VERSION,
        "streamactors": version("streamactors"),
        "group": capsule.group,
        "cluster": capsule.cluster,
        "taken_ms": capsule.taken_ms,
        "since_ms": capsule.since_ms,
        "committed_only": capsule.committed_only,
        "redacted_by": capsule.redacted_by,
        "notes": list(capsule.notes),
        "graph": graph and {"name": graph.name, "stages": list(graph.stages), "source": graph.source},
        "topics": [
            {"name": t.name, "kind": t.kind.value, "partitions": t.partitions, "settings": dict(t.settings)}
            for t in capsule.topics
        ],
        "slices": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "begin": each.begin,
                "end": each.end,
                "log_start": each.log_start,
                "committed": each.committed,
                "records": len(each.records),
                "bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
            for each, data in zip(capsule.slices, members, strict=True)
        ],
    }


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _read(path: Path, archive: zipfile.ZipFile, most_bytes: int) -> Capsule:
    if MANIFEST not in archive.namelist():
        raise CapsuleError(
            f"{path} is no capsule: it is a zip without {MANIFEST}; `streamactors capture` makes capsules"
        )
    told = json.loads(_unpacked(path, archive, MANIFEST, _MANIFEST_BYTES))
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise CapsuleError(f"{path} is no capsule: its {MANIFEST} is that of something else")
    if told["version"] != VERSION:
        raise CapsuleError(
            f"{path} has version {told['version']} of the format, and this version of streamactors reads {VERSION}: "
            f"use streamactors {told.get('streamactors', '')}"
        )
    whole = sum(_whole(each["bytes"]) for each in told["slices"])
    if whole > most_bytes:
        raise CapsuleError(
            f"{path}: its records take {whole:,} bytes, more than the limit of {most_bytes:,}; capture less, or raise the limit"
        )
    graph = told["graph"]
    return Capsule(
        _text(told["group"]),
        _text(told["cluster"]),
        _whole(told["taken_ms"]),
        _whole(told["since_ms"]),
        bool(told["committed_only"]),
        tuple(map(_topic, told["topics"])),
        tuple(_slice(path, archive, number, each) for number, each in enumerate(told["slices"])),
        graph and GraphIdentity(_text(graph["name"]), tuple(map(_text, graph["stages"])), _text(graph["source"])),
        _text(told["redacted_by"]),
        tuple(map(_text, told["notes"])),
    )


def _unpacked(path: Path, archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Return a member of at most `most` bytes; what a member claims about its size is not believed."""
    with archive.open(name) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise CapsuleError(
            f"{path}: {name} has more than {most:,} bytes, which it must not have; capture the group again"
        )
    return data


def _topic(told: dict[str, Any]) -> CapturedTopic:
    settings = {_text(name): _text(value) for name, value in told["settings"].items()}
    return CapturedTopic(_text(told["name"]), Kind(told["kind"]), _whole(told["partitions"]), settings)


def _slice(path: Path, archive: zipfile.ZipFile, number: int, told: dict[str, Any]) -> Slice:
    topic, partition, count = _text(told["topic"]), _whole(told["partition"]), _whole(told["records"])
    data = _unpacked(path, archive, _member(number), _whole(told["bytes"]))
    if hashlib.sha256(data).hexdigest() != told["sha256"]:
        raise CapsuleError(
            f"{path}: the records of {topic}-{partition} do not have their checksum: the capsule is damaged; copy it again"
        )
    unpacker = msgpack.Unpacker(
        io.BytesIO(data), max_buffer_size=max(1, len(data)), use_list=False, raw=False, strict_map_key=True
    )
    records = tuple(_record(topic, partition, row) for row in unpacker)
    offsets = [record.offset for record in records]
    if len(records) != count or any(later <= one for one, later in itertools.pairwise(offsets)):
        raise CapsuleError(
            f"{path}: {topic}-{partition} has {len(records)} records out of order or of another number than {count}"
        )
    committed = told["committed"]
    return Slice(
        topic, partition, _whole(told["begin"]), _whole(told["end"]), _whole(told["log_start"]),
        None if committed is None else _whole(committed), records,
    )  # fmt: skip


def _record(topic: str, partition: int, row: Any) -> CapturedRecord:
    offset, timestamp, key, value, headers = row
    pairs: Headers = tuple((_text(name), _bytes(text)) for name, text in headers)
    if not isinstance(timestamp, int):
        raise TypeError(f"{topic}-{partition}@{offset}: the timestamp {timestamp!r} is no number")
    return CapturedRecord(topic, partition, _whole(offset), timestamp, _bytes(key), _bytes(value), pairs)


def _whole(found: Any) -> int:
    if type(found) is not int or found < 0:
        raise TypeError(f"{found!r} is no whole number of at least 0")
    return found


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise TypeError(f"{found!r} is no string")
    return found


def _bytes(found: Any) -> bytes | None:
    if found is not None and not isinstance(found, bytes):
        raise TypeError(f"a {type(found).__name__} is where bytes should be")
    return found
