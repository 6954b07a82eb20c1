"""Metrics of windowed computations: event time, open windows, rows that are held or were late, and the stores of keyed state.

Owner: a scrape. Each windowed stage looks at its own tasks, on its island; one that is busy is left out of the scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.registry import Collector

from streamactors.dashboard.reading.windows import WindowsReader
from streamactors.engine.island.run import runs_of
from streamactors.metric_family import Family, counter, gauge

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from streamactors.actors.system import ActorSystem

_TASK: Final = ("graph", "task")
_STORE: Final = ("graph", "task", "store")

_WINDOWS: Final[tuple[tuple[Family, Callable[[Any], float | None]], ...]] = (
    (
        gauge("streamactors_window_stream_time_seconds", _TASK, "Event time of the task, in seconds since 1970", "it stays while rows come"),
        lambda each: None if each.stream_time_ms is None else each.stream_time_ms / 1_000,
    ),
    (gauge("streamactors_window_open", _TASK, "Windows that are open"), lambda each: each.open_windows),
    (gauge("streamactors_window_held_rows", _TASK, "Results that suppress holds until their windows close"), lambda each: each.suppressed),
    (counter("streamactors_window_late_rows_total", _TASK, "Rows that came after the close of their window, counted once per window", "it grows"), lambda each: each.late),
    (
        counter("streamactors_window_dropped_rows_total", _TASK, "Rows that were dropped: the late ones, and those without key, value or a valid timestamp", "it grows"),
        lambda each: each.dropped,
    ),
)  # fmt: skip
_STORES: Final[tuple[tuple[Family, Callable[[Any], float | None]], ...]] = (
    (gauge("streamactors_store_entries", _STORE, "Entries of a store in memory"), lambda each: each.entries),
    (gauge("streamactors_store_bytes", _STORE, "Bytes on disk of all stores of the task together"), lambda each: each.bytes),
    (gauge("streamactors_store_cache_hit_ratio", _STORE, "Share of the reads that the cache of a store on disk has answered, from 0 to 1"), lambda each: each.cache_hits),
)  # fmt: skip
FAMILIES: Final = tuple(family for family, _ in (*_WINDOWS, *_STORES))


class WindowsCollector(Collector):
    """Reads the windowed stages of a system."""

    def __init__(self, system: ActorSystem) -> None:
        self._system = system
        self._reader = WindowsReader()

    def collect(self) -> Iterator[Metric]:
        """The families of all tasks and stores."""
        found = self._reader.read(0.0, list(runs_of(self._system)))
        for family, value in _WINDOWS:
            together = max if family.name.endswith("_time_seconds") else sum
            yield family.metric(
                _together(together, (((each.graph, each.task), value(each)) for each in found["windows"]))
            )
        for family, value in _STORES:
            yield family.metric(
                _together(max, (((each.graph, each.task, each.name), value(each)) for each in found["stores"]))
            )

    def describe(self) -> list[Metric]:
        """Return nothing: registering asks no stage."""
        return []


def _together(
    together: Callable[[list[float]], float], found: Iterable[tuple[tuple[str, ...], float | None]]
) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield one sample for tasks with the same labels: of two sources of one graph, or of a store and its standby copy."""
    samples: dict[tuple[str, ...], list[float]] = {}
    for labels, value in found:
        if value is not None:
            samples.setdefault(labels, []).append(value)
    return ((labels, together(values)) for labels, values in samples.items())
