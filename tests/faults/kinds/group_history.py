"""Checks what members of groups saw against what their coordinators may do.

Members record each event with the time (seconds, one clock) at which they asked and at which they were answered. `check_groups` returns everything
that no correct coordinator could have shown:

two-owners            two members got one partition (or task) with the same member epoch
lost-commit           a partition began before an offset whose commit had been answered
unheard-commit        a partition began at an offset that nobody had committed
zombie-commit         a commit with an older epoch was accepted after another member's with a newer one
redelivered           a share group delivered a record whose acknowledgement had been answered
forgotten-deliveries  a record was delivered with a count that does not include releases that had been answered
delivered-twice       two members hold a record of a share group at the same time, under one leader epoch
torn-offsets          the offset that a transaction committed is there and its records are not, or the other way round"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.history import Anomaly, Partition, Value


@dataclass(frozen=True)
class Owned:
    """A member of a consumer group or streams group was given a partition."""

    member: str
    group: str
    partition: Partition
    epoch: int


@dataclass(frozen=True)
class Began:
    """A new owner asked for the committed offset of its partition; without one it is 0."""

    member: str
    group: str
    partition: Partition
    offset: int
    asked: float


@dataclass(frozen=True)
class Committed:
    """An owner committed an offset. `answered` is None if the answer was lost."""

    member: str
    group: str
    partition: Partition
    epoch: int
    offset: int
    asked: float
    answered: float | None


@dataclass(frozen=True)
class Delivered:
    """A member of a share group acquired a record. `leader_epoch` is None where it may have changed meanwhile."""

    member: str
    group: str
    partition: Partition
    offset: int
    value: Value
    count: int
    asked: float
    answered: float
    leader_epoch: int | None
    lock_s: float


@dataclass(frozen=True)
class Acknowledged:
    """A member of a share group acknowledged a record. `answered` is None if the answer was lost, or was an error after which nobody knows."""

    member: str
    group: str
    partition: Partition
    offset: int
    done: bool  # accepted or rejected; otherwise released
    asked: float
    answered: float | None


@dataclass(frozen=True)
class Gone:
    """The session of a member of a share group ended: its records are free."""

    member: str
    group: str
    at: float


@dataclass(frozen=True)
class Entered:
    """A transaction wrote values, and committed its number as an offset of a group."""

    group: str
    number: int
    values: tuple[Value, ...]


GroupEvent = Owned | Began | Committed | Delivered | Acknowledged | Gone | Entered


def check_groups(
    history: Iterable[GroupEvent], visible: set[Value], ledgers: Mapping[str, int] | None = None
) -> list[Anomaly]:
    """Return every anomaly. `visible`: the committed values of the topic. `ledgers`: the last offset of each group that transactions commit to."""
    events = list(history)
    return [
        *_owners(event for event in events if isinstance(event, Owned)),
        *_commits(events),
        *_shares(events),
        *_ledgers([event for event in events if isinstance(event, Entered)], visible, ledgers or {}),
    ]


def _owners(events: Iterable[Owned]) -> Iterator[Anomaly]:
    first: dict[tuple[str, Partition, int], str] = {}
    for event in events:
        other = first.setdefault((event.group, event.partition, event.epoch), event.member)
        if other != event.member:
            yield Anomaly(
                "two-owners", event.partition, f"{event.group}: {other} and {event.member} have epoch {event.epoch}"
            )


def _commits(events: Iterable[GroupEvent]) -> Iterator[Anomaly]:
    commits: dict[tuple[str, Partition], list[Committed]] = defaultdict(list)
    begins: list[Began] = []
    for event in events:
        if isinstance(event, Committed):
            commits[event.group, event.partition].append(event)
        elif isinstance(event, Began):
            begins.append(event)
    for begin in begins:
        before = commits[begin.group, begin.partition]
        known = [each.offset for each in before if each.answered is not None and each.answered < begin.asked]
        if begin.offset < max(known, default=0):
            what = f"{begin.group}: {begin.member} began at {begin.offset}; {max(known)} was committed"
            yield Anomaly("lost-commit", begin.partition, what)
        if begin.offset and not any(each.offset == begin.offset for each in before):
            what = f"{begin.group}: {begin.member} began at {begin.offset}, which nobody has committed"
            yield Anomaly("unheard-commit", begin.partition, what)
    for (group, partition), made in commits.items():
        accepted = [each for each in made if each.answered is not None]
        for late in accepted:
            for early in accepted:
                newer = early.epoch > late.epoch and early.member != late.member
                if newer and early.answered is not None and early.answered < late.asked:
                    what = f"{group}: {late.member} in epoch {late.epoch} after {early.member} in epoch {early.epoch}"
                    yield Anomaly("zombie-commit", partition, what)
                    break


def _shares(events: Iterable[GroupEvent]) -> Iterator[Anomaly]:
    deliveries: dict[tuple[str, Partition, int], list[Delivered]] = defaultdict(list)
    answers: dict[tuple[str, Partition, int], list[Acknowledged]] = defaultdict(list)
    gone: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in events:
        if isinstance(event, Delivered):
            deliveries[event.group, event.partition, event.offset].append(event)
        elif isinstance(event, Acknowledged):
            answers[event.group, event.partition, event.offset].append(event)
        elif isinstance(event, Gone):
            gone[event.group, event.member].append(event.at)
    for (group, partition, offset), made in deliveries.items():
        given = answers[group, partition, offset]
        where = f"{group}: {offset}"
        for each in made:
            before = [ack for ack in given if ack.answered is not None and ack.answered < each.asked]
            done = next((ack for ack in before if ack.done), None)
            if done is not None:
                what = f"{where}: {each.member} got it after {done.member} had acknowledged it"
                yield Anomaly("redelivered", partition, what)
            if each.count < 1 + len(before):
                what = f"{where}: delivery {each.count} after {len(before)} releases"
                yield Anomaly("forgotten-deliveries", partition, what)
            for other in made:
                if other is not each and _held(other, each, given, gone[group, other.member]):
                    what = f"{where}: {each.member} got delivery {each.count}, {other.member} holds {other.count}"
                    yield Anomaly("delivered-twice", partition, what)


def _held(first: Delivered, then: Delivered, given: Iterable[Acknowledged], gone: Iterable[float]) -> bool:
    """Whether the first delivery's lock was held when the other was asked for and answered, under the same leader."""
    return (
        first.leader_epoch is not None
        and first.leader_epoch == then.leader_epoch
        and first.answered < then.asked
        and then.answered < first.asked + first.lock_s
        and not any(ack.member == first.member and first.answered <= ack.asked < then.answered for ack in given)
        and not any(first.asked <= at < then.answered for at in gone)
    )


def _ledgers(entries: list[Entered], visible: set[Value], ledgers: Mapping[str, int]) -> Iterator[Anomaly]:
    """The last transaction whose records are visible is the one whose offset is there."""
    for group, offset in ledgers.items():
        seen = [each.number for each in entries if each.group == group and visible.issuperset(each.values)]
        if max(seen, default=0) != offset:
            what = f"{group}: offset {offset} is committed; the last visible transaction is {max(seen, default=0)}"
            yield Anomaly("torn-offsets", ("", 0), what)
