"""Which connections wait for a buffer, which get one, and which is closed when partly received requests hold too much memory.

Connections and time are the test's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.network.buffers import BufferPool
from streamactors.broker.network.connection import Mute
from streamactors.broker.network.frame_reader import OutOfBuffers
from streamactors.broker.network.limits import Limits
from streamactors.broker.network.processor import Processor


class Dispatcher:
    """Runs what it is given when the test says so."""

    def __init__(self) -> None:
        self.name = "by hand"
        self.now_ms = 10_000.0
        self.clock = SimpleNamespace(now_ms=lambda: self.now_ms)
        self.soon: list[Any] = []
        self.later: list[tuple[float, Any]] = []

    def execute(self, call: Any) -> None:
        self.soon.append(call)

    def call_later(self, delay_ms: float, call: Any) -> Any:
        self.later.append((delay_ms, call))
        return SimpleNamespace(cancel=lambda: None)

    def run(self) -> None:
        while self.soon:
            self.soon.pop(0)()


class FakeConnection:
    """A connection whose next read is what the test says: bytes, or OutOfBuffers."""

    def __init__(self, name: str, *, silent_ms: float = 0, holds: bool = True, peeks: bytes | Exception = b"x") -> None:
        self.name = name
        self.last_active_ms = 10_000.0 - silent_ms
        self.closed = ""
        self.muted = 0
        self.reads: list[Any] = []
        self.listener = SimpleNamespace(protection=SimpleNamespace(tls=None))
        self.reader = SimpleNamespace(holds_buffer=holds, receive=self._receive)
        self.receive_into = None
        self.peer = name
        self.socket = SimpleNamespace(recv=self._peek)
        self._peeks = peeks

    def _peek(self, n: int, flags: int) -> bytes:
        assert n == 1
        if isinstance(self._peeks, Exception):
            raise self._peeks
        return self._peeks

    def _receive(self, into: Any) -> int:
        found = self.reads.pop(0)
        if isinstance(found, Exception):
            raise found
        return int(found)

    def mute(self, why: int) -> None:
        self.muted |= why

    def close(self, why: str) -> None:
        self.closed = why or "closed"


@pytest.fixture
def dispatcher() -> Dispatcher:
    return Dispatcher()


@pytest.fixture
def processor(dispatcher: Dispatcher) -> Any:
    made: Any = Processor(dispatcher, Limits(max_receive_bytes=100), lambda connection, frame: None)  # type: ignore[arg-type]
    made.registered = []
    made._register = made.registered.append
    made.served = []
    made._serve_frames = made.served.append
    made.ended = []
    made._end_of_stream = made.ended.append
    return made


def connected(processor: Any, *connections: FakeConnection) -> None:
    processor.connections = dict(enumerate(connections))


def test_the_connection_that_was_silent_for_the_longest_time_is_closed(processor: Any) -> None:
    short, long, other = (
        FakeConnection(n, silent_ms=ms) for n, ms in (("short", 1_500), ("long", 3_000), ("other", 2_000))
    )
    connected(processor, short, long, other)
    assert processor._evict(None)
    assert [each.closed for each in (short, long, other)] == [
        "",
        "its partly received request holds memory that other connections need",
        "",
    ]


def test_the_connection_that_asks_and_those_without_a_buffer_are_not_closed(processor: Any) -> None:
    asks, empty = FakeConnection("asks", silent_ms=9_000), FakeConnection("empty", silent_ms=9_000, holds=False)
    connected(processor, asks, empty)
    assert not processor._evict(asks)
    assert (asks.closed, empty.closed) == ("", "")


@pytest.mark.parametrize(
    ("silent_ms", "in_use", "closed"), [(999, 199, False), (999, 200, True), (1_000, 101, True), (0, 201, True)]
)
def test_who_sends_is_spared_unless_twice_the_budget_is_in_use(
    processor: Any, silent_ms: float, in_use: int, closed: bool
) -> None:
    sender = FakeConnection("sender", silent_ms=silent_ms)
    connected(processor, sender)
    processor.pool.in_use = in_use
    assert processor._evict(FakeConnection("asks")) is closed
    assert bool(sender.closed) is closed


def test_as_many_are_closed_as_the_budget_needs(processor: Any) -> None:
    connections = [FakeConnection(str(n), silent_ms=2_000 + n) for n in range(4)]
    connected(processor, *connections)
    for each in connections:
        each.close = lambda why, each=each: (  # type: ignore[method-assign,misc]
            setattr(each, "closed", why),
            setattr(each.reader, "holds_buffer", False),
            setattr(processor.pool, "in_use", processor.pool.in_use - 40),
        )
    processor.pool.in_use = 161
    processor._after_parking(FakeConnection("asks"))
    assert [bool(each.closed) for each in connections] == [False, False, True, True]


def test_a_connection_without_a_buffer_waits_and_gets_one_in_its_turn(processor: Any, dispatcher: Dispatcher) -> None:
    first, second = FakeConnection("first"), FakeConnection("second")
    for each in (first, second):
        each.reads = [OutOfBuffers()]
        processor._on_readable(each)
        assert each.muted == Mute.MEMORY
    assert processor.registered == [first, second]
    processor._after_parking(FakeConnection("asks"))
    first.reads, second.reads = [5], [OutOfBuffers()]
    dispatcher.run()
    assert (first.muted, second.muted, processor.served) == (0, Mute.MEMORY, [first])
    processor._after_parking(FakeConnection("asks"))
    second.reads = [5]
    dispatcher.run()
    assert (second.muted, processor.served) == (0, [first, second])
    processor._after_parking(FakeConnection("asks"))
    assert dispatcher.soon == [], "nobody waits"


def test_who_has_to_wait_again_keeps_its_place(processor: Any, dispatcher: Dispatcher) -> None:
    first, second = FakeConnection("first"), FakeConnection("second")
    for each in (first, second):
        processor._wait_for_buffer(each)
    first.reads = [OutOfBuffers()]
    processor._give_buffers()
    assert [each.name for each in processor._waiting_for_buffers] == ["first", "second"]
    assert second.muted == Mute.MEMORY, "the second one was not asked"


@pytest.mark.parametrize(("peeks", "ended", "closed"), [(b"", True, ""), (ConnectionResetError(), False, "closed")])
def test_a_connection_that_has_ended_does_not_wait_for_a_buffer(
    processor: Any, peeks: Any, ended: bool, closed: str
) -> None:
    connection = FakeConnection("gone", peeks=peeks)
    processor._wait_for_buffer(connection)
    assert (bool(processor.ended), connection.closed, connection.muted) == (ended, closed, 0)
    assert list(processor._waiting_for_buffers) == []


def test_a_buffer_of_any_size_may_be_the_only_one() -> None:
    pool = BufferPool(100)
    assert pool.admits(1_000)
    large = pool.take(1_000)
    assert (pool.in_use, pool.overdrawn, pool.admits(1)) == (1_000, True, False)
    pool.give_back(large)
    half = pool.take(60)
    assert (pool.admits(40), pool.admits(41), pool.overdrawn) == (True, False, False)
    pool.give_back(half)
    assert pool.in_use == 0


def test_a_buffer_is_used_again_for_sizes_from_half_of_it_on() -> None:
    pool = BufferPool(1_000)
    kept = pool.take(100)
    pool.give_back(kept)
    for size, again in ((101, False), (49, False), (100, True), (50, True)):
        buffer = pool.take(size)
        assert (buffer is kept) is again, size
        if again:
            pool.give_back(buffer)
    assert len(pool.take(50)) == 100
