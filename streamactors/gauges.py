"""Gauges: the level of a buffer, the highest level that it has reached, and its declared bound.

Owner: whoever owns the buffer makes one gauge for it, and calls `reached` after each addition (once per chunk or message batch, not
per element):

    self._gauge = Gauge(f"{name}: elements of its substreams", bound=self._most)
    ...
    self._held += len(chunk)
    self._gauge.reached(self._held)

A buffer without a number names what bounds it instead (`bounded_by`): the grace of a window, a pause of its source.

A level above the bound is a bug of the product, unless the gauge says otherwise with `why`. It is logged once per name, and `overfull` lists it, also after the buffer is gone.
`live_gauges` lists the gauges of the buffers that exist. The tests of the project read both around every test. Thread-safe, but a
gauge is written by one thread at a time."""

from __future__ import annotations

import logging
import threading
from math import inf
from typing import Final, NamedTuple

from streamactors.living import Living

_log = logging.getLogger("streamactors.gauges")

_MOST_NAMES: Final = 1_000

_lock = threading.RLock()  # re-entrant: a finalizer that runs under it may make a gauge
_gauges: Living[Gauge] = Living()
_overfull: dict[str, Overfull] = {}


class Overfull(NamedTuple):
    """A buffer that has held more than its bound."""

    name: str
    highest: float
    bound: float
    unit: str

    def __str__(self) -> str:
        return f"{self.name}: {self.highest:,g} {self.unit}, and its bound is {self.bound:,g}"


class Gauge:
    """The level of one buffer. Costs a comparison per call of `reached`; it must live as long as its buffer.

    Either `bound` is a number, or `bounded_by` says in words what bounds the buffer. Raises ValueError if both are missing."""

    __slots__ = ("__weakref__", "bound", "bounded_by", "highest", "level", "name", "unit", "why")

    def __init__(
        self, name: str, bound: float = inf, unit: str = "elements", why: str = "this is a bug", *, bounded_by: str = ""
    ) -> None:
        if bound == inf and not bounded_by:
            raise ValueError(f"the gauge {name!r} has no bound; give the number, or bounded_by=")
        self.name = name
        self.bound = bound
        self.bounded_by = bounded_by
        self.unit = unit
        self.why = why
        self.level: float = 0
        self.highest: float = 0
        _gauges.add(self)

    def reached(self, level: float) -> None:
        """The buffer holds `level` units now."""
        self.level = level
        if level > self.highest:
            self.highest = level
            if level > self.bound:
                _exceeded(self)

    def __repr__(self) -> str:
        most = (
            f"of at most {self.bound:g} {self.unit}"
            if self.bound < inf
            else f"{self.unit}, bounded by {self.bounded_by}"
        )
        return f"<Gauge {self.name!r}, {self.level:g} {most}, highest {self.highest:g}>"


def live_gauges() -> list[Gauge]:
    """Return the gauges of the buffers that exist."""
    return list(_gauges)


def overfull() -> list[Overfull]:
    """Return the buffers that have been above their bound since `forget_overfull`, gone or not, at most 1,000 names."""
    with _lock:
        return list(_overfull.values())


def forget_overfull() -> None:
    """Start a new list for `overfull`."""
    with _lock:
        _overfull.clear()


def _exceeded(gauge: Gauge) -> None:
    found = Overfull(gauge.name, gauge.highest, gauge.bound, gauge.unit)
    with _lock:
        before = _overfull.get(gauge.name)
        if before is not None:
            if found.highest > before.highest:
                _overfull[gauge.name] = found
            return
        if len(_overfull) >= _MOST_NAMES:
            return
        _overfull[gauge.name] = found
    _log.warning("a buffer holds more than it may: %s; %s", found, gauge.why)
