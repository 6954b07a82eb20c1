"""The text format of Kafka's checkpoint files: a version line "0", a count line, then one entry per line.

Owner: pure functions; used for recovery points, log starts, high watermarks, the cleaner's points and leader epochs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANED_POINTS: Final = "cleaner-offset-checkpoint"

_VERSION = "0"


def encode_lines(lines: Iterable[str]) -> bytes:
    """Return the file's content for these entries."""
    entries = list(lines)
    return "\n".join([_VERSION, str(len(entries)), *entries, ""]).encode()


def decode_lines(data: bytes, fields: int) -> Iterator[list[str]]:
    """Yield the entries, each split into `fields` words. Raises ValueError unless the file is complete and has version 0."""
    if not data.endswith(b"\n"):
        raise ValueError("a checkpoint that ends within a line")  # A part of a number would be a different number.
    lines = data.decode("ascii").split("\n")
    if len(lines) < 2 or lines[0].strip() != _VERSION:
        raise ValueError(f"a checkpoint of version {lines[0]!r}; only version {_VERSION} is known")
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(entries) != int(lines[1]):
        raise ValueError(f"a checkpoint that declares {lines[1]} entries has {len(entries)}")
    for entry in entries:
        if len(entry) != fields:
            raise ValueError(f"a checkpoint entry of {len(entry)} words, it needs {fields}: {' '.join(entry)!r}")
        yield entry


def encode_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """Return the content of a checkpoint with one offset per partition."""
    return encode_lines(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def decode_offsets(data: bytes) -> dict[tuple[str, int], int]:
    """Return the offsets by (topic, partition). Raises ValueError.

    An empty file has no offsets: Apache Kafka creates its checkpoints empty."""
    if not data:
        return {}
    return {(topic, int(partition)): int(offset) for topic, partition, offset in decode_lines(data, 3)}
