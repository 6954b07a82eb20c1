"""Offsets of a batch as Spark's checkpoint keeps them: where each partition ends, and events that no record shows.

    {"0/t-0": 120, "0/t-1": 80, "_end": 1, "_idle": {"0/t-0": 5000}, "_event": {"0/t-0": "95e"}}

The names of partitions are those of SparkSink's checkpoint, so that a graph without windows moves between this process and a cluster with
its checkpoint. "_end", "_idle" and "_event" are there only with windows. After an end, "_ended" names the tasks that have had no records since:
they are still at that end, whatever the others do. Windows over several topics have "_done", too: the partitions
of which the broker had no more records than the batch takes. Spark's own queries have a checkpoint without a file of streamactors, so their
offsets have "_source", which names what is read, and "_first", where the query has begun. Spark keeps no start of batch 0: a process that
repeats it asks for a start again, and "_first" at the end of the batch says what it was. "_tasks" says into how many tasks the batch is cut
at least, so that a batch that is repeated has the same tasks, whatever the options say by then. Pure: the caller brings ends, times and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark.errors import CheckpointError
from streamactors.spark.executors.ranges import At, Beside, Range, at_of
from streamactors.spark.query.source_identity import SourceIdentity

Offsets = dict[str, Any]
END: Final = "_end"
ENDED: Final = "_ended"
IDLE: Final = "_idle"
EVENT: Final = "_event"
DONE: Final = "_done"
IDENTITY: Final = "_source"
FIRST: Final = "_first"
TASKS: Final = "_tasks"
SOURCE: Final = "0/"
_NONE: Final[Mapping[str, int]] = {}


def name_of(key: TopicPartition) -> str:
    """Return a partition's name in offsets."""
    return f"{SOURCE}{key}"


def key_of(name: str) -> TopicPartition:
    """Return the partition of a name in offsets."""
    topic, _, number = name.removeprefix(SOURCE).rpartition("-")
    return TopicPartition(topic, int(number))


def positions(offsets: Mapping[str, Any]) -> dict[str, int]:
    """Return the positions among offsets."""
    return {name: place for name, place in offsets.items() if not name.startswith("_")}


def initial(first: Mapping[str, int], *, windows: bool, source: SourceIdentity | None = None) -> Offsets:
    """Return the offsets of a query that begins. `source`: what is read, to be kept in the offsets with `first`."""
    found: Offsets = dict(sorted(first.items()))
    if source is not None:
        found |= {IDENTITY: source.as_json(), FIRST: dict(found)}
    if not windows:
        return found
    several = len({key_of(name).topic for name in found}) > 1
    return {**found, END: 0, IDLE: {}, EVENT: {}, **({DONE: []} if several else {})}


def source_of(offsets: Mapping[str, Any]) -> SourceIdentity | None:
    """Return the identity of the source in the offsets; None if they have none."""
    kept = offsets.get(IDENTITY)
    return None if kept is None else SourceIdentity.of_json(kept)


def tasks(offsets: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the partition that names each task, with the other partitions of the task: those of its number in the other topics."""
    names = sorted(positions(offsets), key=key_of)
    if DONE not in offsets:
        return dict.fromkeys(names, ())
    found: dict[int, list[str]] = {}
    for name in names:
        found.setdefault(key_of(name).partition, []).append(name)
    return {first: tuple(others) for first, *others in found.values()}


def at(offsets: Mapping[str, Any], name: str, first: Mapping[str, int], beside: Iterable[str] = ()) -> At:
    """Return the place of a task in offsets. `first`: where the query has begun; `beside`: the task's other partitions."""
    ended = bool(offsets.get(END)) or name in offsets.get(ENDED, ())
    return At(
        offsets.get(name, first.get(name, 0)),
        0 if ended else offsets.get(IDLE, {}).get(name, 0),
        ended=ended,
        beside=tuple(offsets.get(each, first.get(each, 0)) for each in beside),
    )


def following(
    start: Offsets, ends: Mapping[str, int], rows: int, *, is_end: bool = False, silent: Mapping[str, int] = _NONE
) -> Offsets:
    """Return the end of the next batch: up to `rows` records towards `ends`, shared out by how much each partition has waiting.

    `is_end`: `ends` are the ends of the input, so that a batch that reaches all of them is the last one. `silent`: the tasks without
    records that have been silent so long beyond idle_after (in ms) that a window closes. Returns `start` itself when there is nothing to do.
    Every partition with records waiting gets at least one, also if there are more such partitions than `rows`."""
    waiting = {name: max(0, end - start.get(name, 0)) for name, end in ends.items()}
    total = sum(waiting.values())
    windows = END in start
    last = is_end and total <= rows
    if not total and not silent and not (windows and last and not start[END]):
        return start
    places = positions(start)
    busy = sum(n > 0 for n in waiting.values())
    for name, n in waiting.items():
        if total > rows and n > 0:
            n = 1 + (n - 1) * max(0, rows - busy) // max(1, total - busy)
        places[name] = places.get(name, 0) + n
    found: Offsets = dict(sorted(places.items()))
    found |= {name: start[name] for name in (IDENTITY, FIRST) if name in start}
    if not windows:
        return found
    idle, events, ended = _happened(start, found, is_end=is_end)
    is_over = last or (bool(start[END]) and not total)
    found |= {END: int(is_over), IDLE: {**idle, **silent}, EVENT: events}
    if ended and not is_over:
        found[ENDED] = ended
    if DONE in start:
        found[DONE] = [name for name, place in positions(found).items() if place >= ends.get(name, 0)]
    return found


def _happened(start: Offsets, found: Offsets, *, is_end: bool) -> tuple[dict[str, int], dict[str, str], list[str]]:
    """Return the silence so far of each task that gets no records, from which place on the state of each task follows from records, and
    the tasks that stay at an end.

    In a read without an end of several topics the state follows from records within a batch only: which rows waited for
    another topic depends on how far the topics were when the batches were cut."""
    idle: dict[str, int] = {}
    events: dict[str, str] = dict(start[EVENT])
    ended: list[str] = []
    for name, beside in tasks(start).items():
        before = at(start, name, {}, beside)
        stays = before.positions == at(found, name, {}, beside).positions
        if stays and before.ended:
            ended.append(name)
            continue
        if before.happened or (DONE in start and not is_end):
            events[name] = str(before)
        if stays and name in start[IDLE]:
            idle[name] = start[IDLE][name]
    return idle, events, ended


def ranges(start: Offsets, end: Offsets, first: Mapping[str, int]) -> list[Range]:
    """Return the ranges between two offsets, without those in which nothing happens. `first`: where the query has begun.

    Raises CheckpointError if the end of a partition is before its start."""
    if FIRST in end and start.get(FIRST) != end[FIRST]:
        start = end[FIRST]  # batch 0 again: `start` is where a query would begin now
    _check_order(start, end)
    found = []
    for name, others in tasks(end).items():
        before, behind = at(start, name, first, others), at(end, name, first, others)
        if before != behind:
            event = end.get(EVENT, {}).get(name) if not before.happened else start.get(EVENT, {}).get(name)
            happened = None if event is None else at_of(event)
            beside = _beside((name, *others), start, end, first) if others else None
            found.append(Range(key_of(name), before, behind, first.get(name, 0), happened, beside))
    return found


def _check_order(start: Offsets, end: Offsets) -> None:
    until = positions(end)
    for name, place in positions(start).items():
        if until.get(name, place) < place:
            raise CheckpointError(
                f"{name.removeprefix(SOURCE)}: the checkpoint's batch ends at {until[name]}, and the query would begin it at {place}. An older "
                "streamactors wrote this checkpoint without the positions where the query began; say them with startingOffsets, "
                "or give the query a checkpointLocation of its own"
            )


def _beside(names: tuple[str, ...], start: Offsets, end: Offsets, first: Mapping[str, int]) -> Beside:
    done, done_before = (tuple(name in offsets[DONE] for name in names) for offsets in (end, start))
    others = names[1:]
    return Beside(tuple(map(key_of, others)), tuple(first.get(each, 0) for each in others), done, done_before)


def lost(start: Offsets, limits: Mapping[str, tuple[int, int]]) -> tuple[list[str], list[str]]:
    """Return, in words, the records before `limits` (first position, end) that retention has deleted, and the positions beyond them."""
    gone, beyond = [], []
    for name, place in positions(start).items():
        low, high = limits.get(name, (0, 0))
        if place < low:
            gone.append(f"{name.removeprefix(SOURCE)} {place} to {low - 1}")
        elif place > high:
            beyond.append(f"{name.removeprefix(SOURCE)}: {place}, its end is {high}")
    return gone, beyond


def new_among(names: Iterable[str], start: Offsets) -> list[str]:
    """Return the partitions that are not in the offsets yet."""
    return sorted(set(names) - positions(start).keys())
