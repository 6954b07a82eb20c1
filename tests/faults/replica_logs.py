"""Compares the replicas of a topic on the disks of the nodes. A history cannot show that they differ while nobody reads from the wrong one.

A leader is cut off with records that nobody else has -> another leads and gets more -> the first one follows, and keeps its own records
below the end of the new log: no client reads these offsets again until this node leads."""

from __future__ import annotations

import time
from pathlib import Path

from streamactors.broker.records.batch import iter_batches

METADATA = "__cluster_metadata-0"
Batch = tuple[int, int, int]
"""The first offset, the last one and the CRC of a batch. A follower has the batches of its leader."""


def batches(folder: Path) -> list[Batch]:
    """Return the batches of the log in a folder."""
    return [
        (batch.base_offset, batch.last_offset, batch.crc)
        for segment in sorted(folder.glob("*.log"))
        for batch in iter_batches(memoryview(bytearray(segment.read_bytes())))
    ]


def latest_epoch(folder: Path) -> int:
    """Return the leader epoch of the last batch of the log in a folder, -1 without one."""
    epochs = [
        batch.leader_epoch
        for segment in sorted(folder.glob("*.log"))
        for batch in iter_batches(memoryview(bytearray(segment.read_bytes())))
    ]
    return epochs[-1] if epochs else -1


def metadata_differences(data: Path, nodes: int, within_s: float = 30.0) -> list[str]:
    """Return where the metadata logs of the controllers differ within a time. They grow all the time, so their ends are not compared."""
    give_up = time.monotonic() + within_s
    while True:
        logs = {node: batches(data / str(node) / METADATA) for node in range(1, nodes + 1)}
        found = [
            f"the metadata logs of nodes 1 and {node} differ from {a[0]} on"
            for node, log in logs.items()
            for a, b in [next(((a, b) for a, b in zip(logs[1], log, strict=False) if a != b), (None, None))]
            if a is not None and b is not None
        ]
        if not found or time.monotonic() > give_up:
            return found
        time.sleep(0.5)


def differences(data: Path, topic: str, partitions: int, nodes: int, within_s: float = 30.0) -> list[str]:
    """Return the partitions whose replicas are not equal within a time after the last record, with the first offset that differs."""
    give_up = time.monotonic() + within_s
    while True:
        found = [each for n in range(partitions) if (each := _difference(data, f"{topic}-{n}", nodes))]
        if not found or time.monotonic() > give_up:
            return found
        time.sleep(0.5)


def _difference(data: Path, partition: str, nodes: int) -> str:
    logs = {node: batches(data / str(node) / partition) for node in range(1, nodes + 1)}
    first = logs[1]
    for node, log in logs.items():
        if log != first:
            at = next((a[0] for a, b in zip(first, log, strict=False) if a != b), "the end of the shorter one")
            return (
                f"{partition}: the logs of nodes 1 and {node} differ from {at} on ({len(first)} and {len(log)} batches)"
            )
    return ""
