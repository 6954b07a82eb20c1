"""Checks what several clients did to a Kafka cluster against what a log may do: a history checker after Jepsen's Kafka workload.

Every value is written once, so each can be followed. Clients record what they did (`Send`, `Poll`, `Transaction`, `Repositioned`)
with how it ended: `OK`, `FAIL` (surely without effect) or `UNKNOWN` (the answer was lost). `check` returns everything that no
correct log could have shown:

lost-write           acknowledged, and never read although somebody read beyond it
unseen               acknowledged, and not read by the final readers, who read everything
aborted-read         read, though its transaction was surely aborted (or its send surely failed)
torn-transaction     part of a transaction was read, and part of it never
duplicate            one value at two offsets of a partition
inconsistent-offset  two values at one offset
nonmonotonic-poll    a consumer went back without having been repositioned (within one poll: internal, between two: external)
poll-skip            a consumer passed over a value that was there to be read (internal and external)
nonmonotonic-send    a producer's later write got an earlier offset

Source: Jepsen's jepsen.tests.kafka and its reports on Redpanda 21.10 and Bufstream 0.1."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

Partition = tuple[str, int]
Value = int | str


class Outcome(Enum):
    OK = "ok"  # it happened
    FAIL = "fail"  # it surely did not
    UNKNOWN = "unknown"  # the client does not know


class Write(NamedTuple):
    """A value given to a partition; the offset is known if it was acknowledged."""

    partition: Partition
    value: Value
    offset: int | None = None


class Read(NamedTuple):
    partition: Partition
    offset: int
    value: Value


@dataclass(frozen=True)
class Send:
    """Values written outside a transaction."""

    client: str
    outcome: Outcome
    writes: tuple[Write, ...]


@dataclass(frozen=True)
class Poll:
    """The result of one poll, in order."""

    client: str
    reads: tuple[Read, ...]
    final: bool = False  # by a reader that goes from the beginning to the end when everybody else has stopped


@dataclass(frozen=True)
class Transaction:
    """Values written in one transaction."""

    client: str
    outcome: Outcome
    writes: tuple[Write, ...]


@dataclass(frozen=True)
class Repositioned:
    """A consumer was assigned partitions, lost some, or sought: its next poll may begin anywhere in these."""

    client: str
    partitions: frozenset[Partition] | None = None  # None: in all


Event = Send | Poll | Transaction | Repositioned


class Anomaly(NamedTuple):
    kind: str
    partition: Partition
    what: str


@dataclass
class _Known:
    """The evidence of all events about one partition."""

    offsets: dict[Value, set[int]] = field(default_factory=lambda: defaultdict(set))
    values: dict[int, set[Value]] = field(default_factory=lambda: defaultdict(set))
    acknowledged: dict[Value, int | None] = field(default_factory=dict)
    refused: set[Value] = field(default_factory=set)
    read: dict[Value, str] = field(default_factory=dict)  # value -> one of its readers
    read_to_the_end: bool = False

    def at(self, offset: int, value: Value) -> None:
        self.offsets[value].add(offset)
        self.values[offset].add(value)


def check(history: Sequence[Event]) -> list[Anomaly]:
    """Return every anomaly of a history. The events of one client are in the order in which it made them; clients interleave."""
    known = _gather(history)
    anomalies = [a for where, partition in sorted(known.items()) for a in _of_partition(where, partition)]
    anomalies += _torn(history, known)
    anomalies += _of_consumers(history, known)
    anomalies += _of_producers(history)
    return anomalies


def _gather(history: Iterable[Event]) -> dict[Partition, _Known]:
    known: dict[Partition, _Known] = defaultdict(_Known)
    for event in history:
        if isinstance(event, Send | Transaction):
            for where, value, offset in event.writes:
                if event.outcome is Outcome.OK:
                    known[where].acknowledged[value] = offset
                    if offset is not None:
                        known[where].at(offset, value)
                elif event.outcome is Outcome.FAIL:
                    known[where].refused.add(value)
        elif isinstance(event, Poll):
            for where, offset, value in event.reads:
                known[where].at(offset, value)
                known[where].read.setdefault(value, event.client)
                known[where].read_to_the_end |= event.final
    return known


def _of_partition(where: Partition, known: _Known) -> Iterator[Anomaly]:
    highest = max((max(known.offsets[value]) for value in known.read), default=-1)
    for value, offset in known.acknowledged.items():
        if value in known.read:
            continue
        if offset is not None and offset < highest:
            yield Anomaly(
                "lost-write", where, f"{value} was acknowledged at {offset}; offsets up to {highest} were read"
            )
        elif known.read_to_the_end:
            yield Anomaly("unseen", where, f"{value} was acknowledged at {offset}, and no final reader saw it")
    for value in sorted(known.refused & known.read.keys(), key=str):
        yield Anomaly("aborted-read", where, f"{known.read[value]} read {value}, which was surely not committed")
    for value, offsets in known.offsets.items():
        if len(offsets) > 1:
            yield Anomaly("duplicate", where, f"{value} is at offsets {sorted(offsets)}")
    for offset, values in known.values.items():
        if len(values) > 1:
            yield Anomaly("inconsistent-offset", where, f"offset {offset} holds {sorted(values, key=str)}")


def _torn(history: Iterable[Event], known: dict[Partition, _Known]) -> Iterator[Anomaly]:
    """Check transactions with an unknown end: all of their values are visible, or none. (Values of other transactions are checked one by one.)"""
    for event in history:
        if not isinstance(event, Transaction) or event.outcome is not Outcome.UNKNOWN:
            continue
        seen = [write for write in event.writes if write.value in known[write.partition].read]
        missing = [
            write
            for write in event.writes
            if write.value not in known[write.partition].read and known[write.partition].read_to_the_end
        ]
        if seen and missing:
            where, value, _ = missing[0]
            yield Anomaly("torn-transaction", where, f"{event.client}: {seen[0].value} was read, {value} was not")


def _of_consumers(history: Iterable[Event], known: dict[Partition, _Known]) -> Iterator[Anomaly]:
    # What a consumer of committed records must not pass over: acknowledged, or read by somebody.
    visible = {
        where: sorted(
            (min(partition.offsets[value]), value)
            for value in {*partition.acknowledged, *partition.read}
            if partition.offsets.get(value) and value not in partition.refused
        )
        for where, partition in known.items()
    }
    rank = {where: {offset: at for at, (offset, _) in enumerate(order)} for where, order in visible.items()}
    last: dict[tuple[str, Partition], int] = {}
    for event in history:
        if isinstance(event, Repositioned):
            for key in [key for key in last if key[0] == event.client]:
                if event.partitions is None or key[1] in event.partitions:
                    del last[key]
        elif isinstance(event, Poll):
            inside: set[Partition] = set()
            for where, offset, value in event.reads:
                kind = "internal" if where in inside else "external"
                inside.add(where)
                before = last.get((event.client, where))
                last[event.client, where] = offset
                if before is None:
                    continue
                if offset <= before:
                    yield Anomaly(
                        "nonmonotonic-poll", where, f"{event.client} read {value} at {offset} after {before} ({kind})"
                    )
                elif (order := rank.get(where)) is not None and before in order and offset in order:
                    skipped = visible[where][order[before] + 1 : order[offset]]
                    if skipped:
                        yield Anomaly(
                            "poll-skip",
                            where,
                            f"{event.client} went from {before} to {offset} past {skipped[0][1]} at {skipped[0][0]} ({kind})",
                        )


def _of_producers(history: Iterable[Event]) -> Iterator[Anomaly]:
    last: dict[tuple[str, Partition], tuple[int, Value]] = {}
    for event in history:
        if isinstance(event, Send | Transaction) and event.outcome is Outcome.OK:
            for where, value, offset in event.writes:
                if offset is None:
                    continue
                before = last.get((event.client, where))
                if before is not None and offset <= before[0]:
                    yield Anomaly(
                        "nonmonotonic-send",
                        where,
                        f"{event.client} wrote {value} at {offset} after {before[1]} at {before[0]}",
                    )
                last[event.client, where] = (offset, value)
