"""The state of a process as the page, `streamactors top` and other programs read it: one State a second.

These classes are the source of `schema.json`, which `make docs` writes; `/api/schema` serves it. Units are in the names: `_ms` is milliseconds,
`at_ms` and `_ms` of a moment count from 1970, `per_s` is per second. A share is between 0 and 1. None (JSON's null): not known."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from typing import Any, Final

from streamactors.dashboard.model_cluster import BrokerState, SparkState

VERSION: Final = 1
"""Raised when a field changes its meaning or disappears. New fields may come without it."""


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One process. `cpu_share`: processor time per second of the clock; 2.0 is two cores."""

    name: str
    pid: int
    host: str
    started_ms: int
    python: str
    streamactors: str
    cpu_share: float | None = None
    rss_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class StageState:
    """One stage, or `count` equal stages of substreams. `works`, `waits_for_demand`, `waits_for_elements`: shares of its time in the last
    three seconds; the rest it waits for its turn. `works` includes the time of calls, timers and effects outside that it waits for;
    `outside` is this part of it. `failures`: elements for which its function raised, and its own end by an error."""

    id: int
    name: str
    kind: str
    island: int
    group: str | None = None
    count: int = 1
    state: str = "open"
    detail: str = ""
    works: float = 0.0
    waits_for_demand: float = 0.0
    waits_for_elements: float = 0.0
    elements_per_s: float = 0.0
    elements: int = 0
    failures: int = 0
    culprit: bool = False
    process: str | None = None
    outside: float = 0.0


@dataclass(frozen=True, slots=True)
class EdgeState:
    """A connection. `ready`: pushed and not taken. `asked`: elements that may still be pushed. `state`: open, completing, completed, failed,
    cancelled, or boundary between two islands."""

    source: int
    target: int
    per_s: float
    elements: int
    ready: int
    asked: int
    marks: int
    state: str


@dataclass(frozen=True, slots=True)
class CauseState:
    """What holds a graph back. `cause`: works, blocked, sink, source, limit, paused, cycle or pool. `share` is of the last three seconds. A `limit` is a
    stage that lets fewer elements pass on purpose."""

    stage: int
    cause: str
    share: float
    sentence: str


@dataclass(frozen=True, slots=True)
class GraphState:
    """One running graph."""

    id: str
    name: str
    running_ms: int
    stages: tuple[StageState, ...] = ()
    edges: tuple[EdgeState, ...] = ()
    causes: tuple[CauseState, ...] = ()
    process: str | None = None


@dataclass(frozen=True, slots=True)
class BannerState:
    """A sentence for the top of the page; the most likely cause comes first. `kind`: that of a CauseState, or partition, broker, spark, failed, stall or page.
    `holds`: True if it holds a stream back or is wrong; False if it is only good to know. `graph`, `stage`: ids, where it is about a stage."""

    kind: str
    holds: bool
    sentence: str
    graph: str | None = None
    stage: int | None = None
    process: str | None = None


@dataclass(frozen=True, slots=True)
class OldestMark:
    """The oldest position that is not done at every sink, and the sink that has not reported it."""

    position: int
    age_ms: int
    sink: str


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition that a consumer has. Positions are exclusive: everything before them is delivered, done, committed. `lag`: records that are
    not done yet; `lag_seconds`: the age of the oldest record that is not done."""

    topic: str
    partition: int
    position: int | None = None
    done: int | None = None
    committed: int | None = None
    end: int | None = None
    begin: int | None = None
    lag: int | None = None
    lag_seconds: float | None = None
    buffered_records: int = 0
    buffered_bytes: int = 0
    paused: bool = False
    paused_by: str | None = None
    in_flight: int | None = None
    oldest_mark: OldestMark | None = None
    per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RebalanceState:
    """`count` partitions came or went; `partitions` names the first ones. `kind`: assigned, revoked or lost. `why`: what the consumer knows of the reason. `took_ms`: how long the consumer was
    busy with it; for revoked partitions that is mostly the wait for records in flight and their commit."""

    at_ms: int
    kind: str
    partitions: tuple[str, ...]
    why: str = ""
    took_ms: int | None = None
    count: int = 0


@dataclass(frozen=True, slots=True)
class TransactionsState:
    """The transactions of a graph that writes what it reads exactly once. `phase` is that of the cut at which it commits: writing, asked (the parts
    go to one position), settling (other sinks are waited for), committing, over or aborted. `since_ms`: since when it has this phase. `parts`: each part of the
    transaction with its own phase. `written_again`: transactions whose records were written again after a rebalance. `last_ms`: how long the last cut
    took, from its beginning to its commit."""

    phase: str
    since_ms: int | None
    committed: int
    aborted: int
    id: str = ""
    written_again: int = 0
    last_ms: float | None = None
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """One consumer."""

    graph: str
    group: str
    client: str
    demand: int = 0
    delivered: int = 0
    pauses: int = 0
    resumes: int = 0
    partitions: tuple[PartitionState, ...] = ()
    rebalances: tuple[RebalanceState, ...] = ()
    transactions: TransactionsState | None = None
    process: str | None = None


@dataclass(frozen=True, slots=True)
class LateRow:
    """A row that came after its window had closed."""

    key: str
    timestamp_ms: int
    behind_ms: int


@dataclass(frozen=True, slots=True)
class WindowsState:
    """Event time of one task. `rows`: those that it has taken; `late`: rows after the close of their window, once for each window; `dropped`: those and
    rows without key, value or timestamp."""

    graph: str
    task: str
    stream_time_ms: int | None = None
    open_windows: int | None = None
    next_close_ms: int | None = None
    suppressed: int | None = None
    late: int = 0
    late_samples: tuple[LateRow, ...] = ()
    dropped: int = 0
    rows: int = 0
    process: str | None = None


@dataclass(frozen=True, slots=True)
class StoreState:
    """One store of keyed state of a task. `kind`: memory or disk. `bytes`: of its files, of all stores of the task together, where it is on disk.
    `cache_hits`: share of reads that its cache has answered. `restored`, `restore_total`: records of its changelog, while it is read
    (`kind` is changelog then). `standby`: a copy of another member's store, which follows its changelog and lacks `restore_total` records."""

    graph: str
    name: str
    kind: str
    task: str = ""
    standby: bool = False
    entries: int | None = None
    bytes: int | None = None
    cache_hits: float | None = None
    restored: int | None = None
    restore_total: int | None = None
    restoring: bool = False
    process: str | None = None


@dataclass(frozen=True, slots=True)
class HopState:
    """The time that records need for one hop, in the last one to two minutes. `place`: its place in the journey. `whole`: not one hop, but the whole
    journey to the sink `hop`, or to the commit. `working_ms`, `waiting_ms`: the two parts of the mean. `clock_skew`: some records seem to be of the
    future, and their first hop is not counted."""

    graph: str
    hop: str
    n: int
    place: int = 0
    whole: bool = False
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    mean_ms: float | None = None
    working_ms: float | None = None
    waiting_ms: float | None = None
    clock_skew: bool = False
    process: str | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be processed, and why."""

    reason: str
    stage: str


@dataclass(frozen=True, slots=True)
class DeadLettersState:
    """A topic of dead letters."""

    topic: str
    count: int
    samples: tuple[DeadLetter, ...] = ()
    process: str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """What a process does now. `processes` has one entry for each process whose states were combined."""

    at_ms: int
    process: ProcessState
    version: int = VERSION
    processes: tuple[ProcessState, ...] = ()
    graphs: tuple[GraphState, ...] = ()
    consumers: tuple[ConsumerState, ...] = ()
    windows: tuple[WindowsState, ...] = ()
    stores: tuple[StoreState, ...] = ()
    latency: tuple[HopState, ...] = ()
    broker: BrokerState | None = None
    spark: tuple[SparkState, ...] = ()
    dead_letters: tuple[DeadLettersState, ...] = ()
    stalls: tuple[str, ...] = field(default=())
    banners: tuple[BannerState, ...] = ()


_FIELDS: dict[type, tuple[str, ...]] = {}


def encoded(state: State) -> bytes:
    """Return a state as JSON in UTF-8; a number that is not finite becomes null."""
    text = json.dumps(state, default=_plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "backslashreplace")  # a lone surrogate of a user's string is no UTF-8


def _plain(value: Any) -> Any:
    kind = type(value)
    names = _FIELDS.get(kind)
    if names is None:
        names = _FIELDS[kind] = tuple(each.name for each in fields(value))
    return {name: _finite(getattr(value, name)) for name in names}


def _finite(value: Any) -> Any:
    return None if type(value) is float and not math.isfinite(value) else value
