"""Clients of Kafka that a test leaves open. They would call their stopped broker, and log it, in the midst of later tests.

A consumer is open until it was closed. A producer or an admin client is open until its last reference is gone: librdkafka ends with it. The clients of
a fixture with a wider scope than one test are looked for when the fixture has ended."""

from __future__ import annotations

import gc
import sys
import threading
import time
import traceback
import types
import weakref
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

import pytest

CONNECTION: Final = "streamactors.kafka.client.connection"
WITHIN_S: Final = 10.0
"""How long a client may take to end after its test: a consumer leaves its group, and a thread of its own closes it."""
COLLECTS_S: Final = (0.2, 1.0, 3.0, 8.0)
"""After these times the garbage is collected: an exception that the test has caught may hold the client in a reference cycle, and a thread that still
ends may hold the exception. The wait itself makes nothing that would start a collection."""
_OF_MAKING: Final = ("/streamactors/kafka/client/", "/tests/watch/")
_NOT_OURS: Final = ("/site-packages/", "/lib/python", "<frozen ")


class _Made:
    """One client, from the moment at which it was made."""

    def __init__(self, kind: str, properties: Mapping[str, Any], fixture: Any) -> None:
        self.kind = kind
        self._properties = {name: properties[name] for name in _NAMED if properties.get(name)}
        self._thread = threading.current_thread().name
        self._where = _where()
        self._fixture = fixture
        self.reads: list[str] = []
        self.is_closed = False
        self.client: weakref.ref[Any] = lambda: None  # type: ignore[assignment]

    @property
    def is_open(self) -> bool:
        return not self.is_closed and self.client() is not None

    def may_be_open(self, *, of_module: bool) -> bool:
        """True while the fixture that made it has not ended. `of_module`: fixtures of this module may be there."""
        if self._fixture is not None:
            return self._fixture.cached_result is not None
        return of_module and self._thread.startswith(_OF_PAGES)

    def __str__(self) -> str:
        named = "".join(f", {name} {value}" for name, value in self._properties.items())
        reads = f", reads {', '.join(self.reads)}" if self.reads else ""
        return f"{self.kind}{named}{reads}, made on the thread {self._thread!r}: {self._where}"


_OF_PAGES: Final = "dashboard: "
"""Begins the names of threads that a test may begin for the page of a fixture; the page ends with its module."""
_NAMED: Final = ("bootstrap.servers", "group.id", "transactional.id")


def _where() -> str:
    """Return the lines that asked for the client, the nearest first."""
    frames = [f for f in reversed(traceback.extract_stack()) if not any(part in f.filename for part in _OF_MAKING)]
    ours = [f for f in frames if not any(part in f.filename for part in _NOT_OURS)]
    return " < ".join(f"{f.filename.rpartition('/')[2]}:{f.lineno} {f.name}" for f in ours[:6])


def _noting(kind: type[Any]) -> type[Any]:
    """Return a subclass of a client of librdkafka that can be referred to weakly, and that notes what it reads and its close."""

    def noted(client: Any, names: Any) -> None:
        made = getattr(client, "made", None)
        if made is not None:
            made.reads = sorted({str(getattr(name, "topic", name)) for name in names})

    class Noting(kind):  # type: ignore[misc]
        def close(self, *arguments: Any, **named: Any) -> Any:
            try:
                return super().close(*arguments, **named)
            finally:
                self.made.is_closed = True

        def subscribe(self, topics: Any, *arguments: Any, **named: Any) -> Any:
            noted(self, topics)
            return super().subscribe(topics, *arguments, **named)

        def assign(self, partitions: Any, *arguments: Any, **named: Any) -> Any:
            noted(self, partitions)
            return super().assign(partitions, *arguments, **named)

    Noting.__name__ = kind.__name__
    return Noting


def held_by(client: object) -> str:
    """Return who refers to the client, and to those who do: a frame by its function, any other object by its type."""
    if client is None:
        return ""
    chains, level = [], [(client, "")]
    passed = {id(sys._getframe()), id(level)}
    for _ in range(LEVELS):
        further = []
        for each, chain in level:
            for holder in gc.get_referrers(each):
                if id(holder) not in passed and holder is not level and holder is not further:
                    passed.add(id(holder))
                    further.append((holder, f"{chain} < {_named(holder)}"))
        chains += [chain for _, chain in further]
        level = further[:SHOWN]
    return f"; held by {'; '.join(chains[:SHOWN])}" if chains else "; held by no object of Python"


LEVELS: Final = 4
SHOWN: Final = 30


def _named(holder: object) -> str:
    if isinstance(holder, types.FrameType):
        return f"frame of {holder.f_code.co_qualname} at {holder.f_lineno}"
    if isinstance(holder, dict):
        return f"dict of {', '.join(sorted(map(str, holder))[:6])}"
    return type(holder).__qualname__


class ClientWatch:
    """Names the clients that this package made during a test, and that are open after its fixtures were torn down."""

    def __init__(self, within_s: float = WITHIN_S) -> None:
        self._within_s = within_s
        self._made: list[_Made] = []
        self._lock = threading.Lock()
        self._installed = False
        self._kinds: dict[Any, type[Any]] = {}
        self._fixture: Any = None  # with a wider scope than one test, and being made

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Note every client that is made from now on, if the module that makes them was imported. Cheap, so it is called before every test."""
        if CONNECTION in sys.modules and not self._installed:
            self._installed = True
            connection = sys.modules[CONNECTION].ClientConnection
            patch.setattr(connection, "make", self._noted(connection.make))

    def _noted(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def makes(connection: Any, factory: Any, properties: Mapping[str, Any]) -> Any:
            if not isinstance(factory, type):
                return make(connection, factory, properties)
            kind = self._kinds.setdefault(factory, _noting(factory))
            made = _Made(factory.__name__, properties, self._fixture)
            client = make(connection, kind, properties)
            client.made, made.client = made, weakref.ref(client)
            with self._lock:
                self._made.append(made)
            return client

        return makes

    def fixture(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """Surround the making of a fixture: its clients may be open as long as it is there."""
        before = self._fixture
        self._fixture = before if fixturedef.scope == "function" else fixturedef
        try:
            return (yield)
        finally:
            self._fixture = before

    def take(self, *, of_module: bool = False) -> list[str]:
        """Return a sentence for each client that is left open. Waits until clients that are about to end have ended.

        `of_module`: another test of this module follows."""
        began_s = time.monotonic()
        collects = [min(each, self._within_s / 2) for each in COLLECTS_S]
        while (left := self._open(of_module)) and (took_s := time.monotonic() - began_s) < self._within_s:
            if collects and took_s > collects[0]:
                del collects[0]
                gc.collect()
            time.sleep(0.002)
        with self._lock:
            self._made = [made for made in self._made if made.is_open and made.may_be_open(of_module=of_module)]
        return [f"leaves a client open: {made}{held_by(made.client())}" for made in left]

    def _open(self, of_module: bool) -> list[_Made]:
        with self._lock:
            self._made = [made for made in self._made if made.is_open]
            return [made for made in self._made if not made.may_be_open(of_module=of_module)]
