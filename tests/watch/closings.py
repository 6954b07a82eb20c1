"""Every way of closing ends within its declared limit, and says so by its name where it does not.

A machine that runs other tests may delay any thread for seconds, so a closing is late only GRACE_S after its limit."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, NamedTuple

import pytest

GRACE_S: Final = 10.0


def _given(
    position: int, name: str, default: float | None
) -> Callable[[tuple[Any, ...], dict[str, Any]], float | None]:
    """Return a function that finds the limit among the arguments of a call, in seconds; None: the call has no limit."""

    def find(arguments: tuple[Any, ...], named: dict[str, Any]) -> float | None:
        value = named.get(name, arguments[position] if len(arguments) > position else default)
        from streamactors.durations import duration_s

        return None if value is None else duration_s(value, "timeout")

    return find


def _always(limit_s: float) -> Callable[[tuple[Any, ...], dict[str, Any]], float | None]:
    return lambda arguments, named: limit_s


CLOSINGS: Final[list[tuple[str, str, str, Callable[..., float | None]]]] = [
    ("streamactors.actors.local_system", "LocalSystemBase", "shutdown", _given(1, "timeout", 1.0)),
    ("streamactors.actors.dispatching.dispatcher", "Dispatcher", "stop", _given(1, "timeout", 5.0)),
    ("streamactors.actors.pool.elastic_pool", "ElasticPool", "stop", _given(1, "timeout", 1.0)),
    ("streamactors.broker.launch.child_process", "ChildBroker", "close", _always(60.0)),
    ("streamactors.broker.launch.embedded", "EmbeddedBroker", "close", _always(10.0)),
    ("streamactors.broker.cluster.several", "SeveralBrokers", "close", _always(20.0)),
    ("streamactors.kafka.controls.control", "Control", "drain_and_shutdown", _given(2, "timeout", None)),
    (
        "streamactors.kafka.controls.draining_control",
        "DrainingControl",
        "drain_and_shutdown",
        _given(2, "timeout", None),
    ),
    ("streamactors.spark.query.query", "SparkStreamQuery", "stop", _given(1, "timeout", 60.0)),
]
"""Module, class, method, and where its limit is declared."""


CONSUMER: Final = "streamactors.kafka.reading.ending"


class _Open(NamedTuple):
    """A closing that has begun."""

    name: str
    limit_s: float
    began_s: float
    closed: Any  # a future


class ClosingWatch:
    """Measures the calls of CLOSINGS, and every consumer from the end of its stream until it has closed."""

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self.grace_s = grace_s
        self._late: list[str] = []
        self._waiting = list(CLOSINGS)
        self._knows_consumers = False

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Measure the closings of the modules that are imported by now. Cheap, so it is called before every test."""
        for closing in tuple(self._waiting):
            module, kind, method, limit = closing
            if module in sys.modules:
                owner = getattr(sys.modules[module], kind)
                patch.setattr(owner, method, self.measured(f"{kind}.{method}", getattr(owner, method), limit))
                self._waiting.remove(closing)
        if CONSUMER in sys.modules and not self._knows_consumers:
            self._knows_consumers = True
            ending = sys.modules[CONSUMER].Ending
            patch.setattr(ending, "begin", self._consumer_ends(ending.begin))

    def _consumer_ends(self, begin: Callable[..., None]) -> Callable[..., None]:
        @wraps(begin)
        def begins(ending: Any, *arguments: Any, **named: Any) -> None:
            settings = ending._context.settings
            limit_s = (settings.commit_timeout_ms + settings.close_timeout_ms) / 1_000
            self._opened(_Open(f"the consumer of group {settings.group_id}", limit_s, time.monotonic(), ending._ended))
            begin(ending, *arguments, **named)

        return begins

    def _opened(self, closing: _Open) -> None:
        """Measure until the consumer has closed. One whose actor ended with its system never does, and is forgotten."""

        def closed(_: Any) -> None:
            took_s = time.monotonic() - closing.began_s
            if took_s > closing.limit_s + self.grace_s:
                self._late.append(f"{closing.name} closed after {took_s:.1f} s, and its limit is {closing.limit_s:g} s")

        closing.closed.add_done_callback(closed)

    def measured(self, name: str, close: Callable[..., Any], limit: Callable[..., float | None]) -> Callable[..., Any]:
        """Return `close` with a look at the clock around it."""

        @wraps(close)
        def closing(*arguments: Any, **named: Any) -> Any:
            began_s = time.monotonic()
            try:
                return close(*arguments, **named)
            finally:
                took_s = time.monotonic() - began_s
                limit_s = limit(arguments, named)
                if limit_s is not None and took_s > limit_s + self.grace_s:
                    self._late.append(f"{name} took {took_s:.1f} s, and its limit is {limit_s:g} s")

        return closing

    def take(self) -> list[str]:
        """Return a sentence for each closing that was late, since the last call."""
        late, self._late = self._late, []
        return late
