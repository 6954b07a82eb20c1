"""LatencyMeter: how long elements need from hop to hop, in the streams of a system.

Owner: the caller. While there is a meter, sources put stamps after some of their chunks, at most twenty a second; see `engine/hops/`."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Final

from streamactors.durations import Duration, duration_ms
from streamactors.engine.hops.ledger import HopLedger, Journey
from streamactors.engine.hops.rows import ShownRow
from streamactors.engine.island.run import Meter, measure_no_more, measure_runs
from streamactors.errors import BuildError

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem

KEPT_RUNS: Final = 50
"""The newest runs that have ended and are still shown."""


@dataclass(frozen=True, slots=True)
class HopLatency:
    """The time that elements need for one hop. `working_ms`, `waiting_ms`: the two parts of the mean. `skewed`: journeys that are not counted here,
    because the clock of the machine that wrote the record is ahead of this one."""

    hop: str
    """From where to where: the names of the two stages, or topic, poll and commit."""
    n: int
    """Number of journeys that were measured."""
    p50_ms: float | None
    """The median in milliseconds; None without a journey."""
    p99_ms: float | None
    """The 99th percentile in milliseconds."""
    max_ms: float | None
    """The longest one in milliseconds."""
    working_ms: float | None
    """The part of the mean in which a stage worked, in milliseconds."""
    waiting_ms: float | None
    """The part of the mean in which the element waited, in milliseconds."""
    skewed: int = 0
    """Journeys that are not counted, because the clock of the machine that wrote the record is ahead."""

    @property
    def mean_ms(self) -> float | None:
        """The mean: working and waiting."""
        return None if self.working_ms is None or self.waiting_ms is None else self.working_ms + self.waiting_ms


@dataclass(frozen=True, slots=True)
class GraphLatency:
    """One run. `hops` follow one another; `whole` is the time from the beginning of the first hop to the end of each sink, and to the commit.

    `share` is the sum of the hops by the sum of the whole journeys: 1 but for rounding, unless clocks disagree."""

    name: str
    """The name of the graph."""
    hops: tuple[HopLatency, ...]
    """The hops in their order."""
    whole: tuple[HopLatency, ...]
    """From the beginning of the first hop to the end of each sink, and to the commit."""
    journeys: tuple[Journey, ...]
    """The newest journeys, one by one."""
    begun: int
    """Number of journeys that have begun."""
    on_their_way: int
    """Number of journeys that have not ended yet."""

    @property
    def share(self) -> float | None:
        """The sum of all hops by the sum of all whole journeys to a sink; None before the first has arrived."""
        whole = sum(each.ended_ms - each.began_ms for each in self.journeys)
        hops = sum(hop.waited_ms + hop.worked_ms for each in self.journeys for hop in each.hops)
        return hops / whole if whole else None


class LatencyMeter:
    """Measure the latency of each hop in the streams of a system until `stop()`, or for the length of a `with` block.

    Streams that begin later are measured, too. Only streams whose marks are read can be measured: a Kafka source that commits, transactions, windows
    with a changelog, a SparkSink, or a source with `on_done`. A source measures one chunk `every` (seconds, a timedelta or a string) at most.
    `graphs()` returns what is known."""

    def __init__(self, system: ActorSystem, every: Duration = 0.05) -> None:
        every_ms = duration_ms(every, "LatencyMeter: every")
        if every_ms < 0:
            raise BuildError(f"LatencyMeter: every must not be negative, got {every!r}")
        self.system = system
        self._meter = Meter(every_ms, KEPT_RUNS)
        measure_runs(system, self._meter)
        self._hook = system.on_shutdown(self.stop)

    def stop(self) -> None:
        """Measure no more; what was measured stays."""
        measure_no_more(self.system, self._meter)

    @property
    def ledgers(self) -> tuple[HopLedger, ...]:
        """The ledgers of the streams that have sent a stamp, the oldest stream first."""
        return tuple(ledger for ledger in list(self._meter.ledgers) if ledger.begun)

    def graphs(self) -> tuple[GraphLatency, ...]:
        """Return the latencies of each stream that has sent a stamp, the oldest stream first. Any thread."""
        return tuple(map(read, self.ledgers))

    def __enter__(self) -> LatencyMeter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._hook is not None:
            self._hook.cancel()


def read(ledger: HopLedger) -> GraphLatency:
    """Return what the ledger of a run says now."""
    found = ledger.read()
    return GraphLatency(
        ledger.name,
        tuple(map(_latency, found.hops)),
        tuple(map(_latency, found.ends)),
        tuple(ledger.journeys),
        found.begun,
        found.on_their_way,
    )


def _latency(row: ShownRow) -> HopLatency:
    spread = row.whole
    return HopLatency(
        row.label,
        spread.n,
        spread.p50_ms,
        spread.p99_ms,
        spread.max_ms,
        spread.worked_ms,
        spread.waited_ms,
        row.skewed,
    )
