"""The observer with a leader that the test plays: what it asks for, what it does with each answer, and when it asks again."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.errors import BrokerError, CorruptMessage, ErrorCode, StorageError
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer
from streamactors.broker.quorum.observer import DAMAGE_RETRY_MS, FETCH_TIMEOUT_MS, MAX_SNAPSHOT_BYTES, Observer
from streamactors.broker.quorum.observer_state import EndOfLog
from streamactors.broker.quorum.raft.raft_wire import FETCH, FETCH_SNAPSHOT

LEADER = ("leader", 9093)
BOOTSTRAP = ("bootstrap", 9093)
DIRECTORY = uuid.UUID(int=5)


class World:
    """The dispatcher, the log, the owner and the channels of one observer."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, tuple[int, int], dict[str, Any]]] = []  # address, API, body
        self.then: Any = None
        self.later: list[tuple[float, Any, SimpleNamespace]] = []
        self.told: list[tuple[Any, ...]] = []
        self.closed: list[tuple[Any, str]] = []
        self.last = EndOfLog(0, 10, 3)
        self.fails: BrokerError | None = None
        self.observer = Observer(
            self,  # type: ignore[arg-type]
            self,
            self,
            [BOOTSTRAP],
            node_id=7,
            cluster_id="cluster",
            directory_id=DIRECTORY,
            buffers=None,  # type: ignore[arg-type]
            to_controllers=self,  # type: ignore[arg-type]
        )
        self.observer.start()

    # the log
    def end(self) -> EndOfLog:
        return self.last

    def append(self, records: Any) -> None:
        self._store("append", records)

    def truncate(self, epoch: int, end_offset: int) -> None:
        self._store("truncate", epoch, end_offset)

    def install(self, epoch: int, end_offset: int, content: Any) -> None:
        self._store("install", epoch, end_offset, bytes(content))

    def _store(self, *what: Any) -> None:
        if self.fails is not None:
            raise self.fails
        self.told.append(what)

    # the owner
    def committed(self, high_watermark: int) -> None:
        self.told.append(("committed", high_watermark))

    def leader_changed(self, leader_id: int, epoch: int, address: Any) -> None:
        self.told.append(("leader", leader_id, epoch, address))

    def refused(self, error: ErrorCode) -> None:
        self.told.append(("refused", error))

    def halted(self, error: BrokerError) -> None:
        self.told.append(("halted", error))

    # the dispatcher
    def call_later(self, delay_ms: float, call: Any) -> Any:
        timer = SimpleNamespace(cancelled=False)
        timer.cancel = lambda: setattr(timer, "cancelled", True)
        self.later.append((delay_ms, call, timer))
        return timer

    # the channels
    def channel(self, dispatcher: Any, address: Any, name: str, buffers: Any, *, timeout_ms: float) -> Any:
        assert (dispatcher, name, timeout_ms) == (self, "broker-7-raft", FETCH_TIMEOUT_MS)

        def request(key: int, version: int, body: Any, then: Any, timeout_ms: float) -> None:
            assert timeout_ms == FETCH_TIMEOUT_MS
            self.asked.append((address, (key, version), body))
            self.then = then

        return SimpleNamespace(address=address, request=request, close=lambda why: self.closed.append((address, why)))

    # the test
    def answer(self, value: Any) -> list[tuple[Any, ...]]:
        """Answer the request that is under way; return what the log and the owner were told."""
        then, self.then, self.told = self.then, None, []
        then(ChannelAnswer(value))
        return self.told

    def break_channel(self) -> list[tuple[Any, ...]]:
        then, self.then, self.told = self.then, None, []
        then(ChannelAnswer(error=ConnectionError("gone")))  # type: ignore[arg-type]
        return self.told

    def wait(self) -> float:
        """Let the time come at which the observer asks again; return the delay."""
        delay_ms, call, timer = self.later.pop()
        assert not timer.cancelled
        call()
        return delay_ms

    def partition(self) -> dict[str, Any]:
        """What was asked about the partition last."""
        topics = self.asked[-1][2]["topics"]
        found: dict[str, Any] = topics[0]["partitions"][0]
        return found


def fetched(
    *,
    error: ErrorCode = ErrorCode.NONE,
    leader: tuple[int, int] = (1, 4),
    records: bytes | None = b"",
    high_watermark: int = -1,
    diverging: tuple[int, int] = (-1, -1),
    snapshot: tuple[int, int] = (-1, -1),
) -> Any:
    partition = SimpleNamespace(
        error_code=int(error),
        current_leader=SimpleNamespace(leader_id=leader[0], leader_epoch=leader[1]),
        diverging_epoch=SimpleNamespace(epoch=diverging[0], end_offset=diverging[1]),
        snapshot_id=SimpleNamespace(epoch=snapshot[0], end_offset=snapshot[1]),
        high_watermark=high_watermark,
        records=records,
    )
    return SimpleNamespace(
        error_code=0,
        responses=[SimpleNamespace(partitions=[partition])],
        node_endpoints=[SimpleNamespace(node_id=1, host="leader", port=9093)],
    )


def piece(content: bytes, *, position: int = 0, size: int = 6, error: int = 0) -> Any:
    partition = SimpleNamespace(error_code=error, position=position, size=size, unaligned_records=content)
    return SimpleNamespace(error_code=0, topics=[SimpleNamespace(partitions=[partition])])


@pytest.fixture
def world() -> World:
    """An observer that has found the leader and asks it."""
    world = World()
    assert world.asked[0][:2] == (BOOTSTRAP, FETCH)
    told = world.answer(fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert told == [("leader", 1, 4, LEADER)]
    assert world.wait() == 0.0
    assert world.asked[-1][:2] == (LEADER, FETCH)
    assert world.closed == [(BOOTSTRAP, "another node leads")]
    return world


def test_the_end_of_the_log_is_asked_for_with_what_is_known(world: World) -> None:
    body = world.asked[-1][2]
    asked = world.partition()
    assert body["max_wait_ms"] == 500
    assert (asked["fetch_offset"], asked["last_fetched_epoch"], asked["current_leader_epoch"]) == (10, 3, 4)


def test_what_is_committed_is_told_when_the_log_has_all_of_it(world: World) -> None:
    # By the metadata of the first of several answers a starting broker took younger topics for deleted, and removed their logs.
    world.last = EndOfLog(0, 12, 4)
    assert world.answer(fetched(records=b"two", high_watermark=20)) == [("append", b"two")]
    assert world.wait() == 0.0
    world.last = EndOfLog(0, 21, 4)
    assert world.answer(fetched(records=b"more", high_watermark=20)) == [("append", b"more"), ("committed", 20)]
    assert world.wait() == 0.0
    assert world.answer(fetched(high_watermark=20)) == []
    assert world.wait() == 0.0
    assert world.answer(fetched(high_watermark=21)) == [("committed", 21)]


def test_a_log_that_diverges_is_cut(world: World) -> None:
    assert world.answer(fetched(diverging=(2, 8))) == [("truncate", 2, 8)]
    assert world.wait() == 0.0


def test_a_snapshot_is_read_piece_by_piece_and_put_in_place(world: World) -> None:
    assert world.answer(fetched(snapshot=(3, 40))) == []
    assert world.asked[-1][:2] == (LEADER, FETCH_SNAPSHOT)
    body, asked = world.asked[-1][2], world.partition()
    assert (body["cluster_id"], body["replica_id"]) == ("cluster", 7)
    assert (asked["snapshot_id"], asked["position"]) == ({"end_offset": 40, "epoch": 3}, 0)
    assert (asked["current_leader_epoch"], asked["replica_directory_id"]) == (4, DIRECTORY)
    assert world.answer(piece(b"abcd")) == []
    assert world.partition()["position"] == 4
    assert world.answer(piece(b"ef", position=4)) == [("install", 3, 40, b"abcdef")]
    assert world.asked[-1][1] == FETCH, "records behind the snapshot are asked for at once"


def test_a_piece_without_bytes_ends_the_reading(world: World) -> None:
    world.answer(fetched(snapshot=(3, 40)))
    world.answer(piece(b"abcd"))
    assert world.answer(piece(b"", position=4)) == [("install", 3, 40, b"abcd")]


@pytest.mark.parametrize(
    "wrong",
    [
        piece(b"ab", error=1),
        piece(b"ab", position=1),
        piece(b"ab", size=0),
        piece(b"ab", size=MAX_SNAPSHOT_BYTES + 1),
        SimpleNamespace(error_code=1, topics=piece(b"ab").topics),
        SimpleNamespace(error_code=0, topics=[]),
    ],
)
def test_a_wrong_piece_forgets_the_leader(world: World, wrong: Any) -> None:
    world.answer(fetched(snapshot=(3, 40)))
    assert world.answer(wrong) == [("leader", -1, 4, None)]
    assert world.wait() > 0
    assert world.asked[-1][:2] == (BOOTSTRAP, FETCH)


def test_a_snapshot_may_have_the_largest_size(world: World) -> None:
    world.answer(fetched(snapshot=(3, 40)))
    assert world.answer(piece(b"ab", size=MAX_SNAPSHOT_BYTES)) == []
    assert world.partition()["position"] == 2
    assert MAX_SNAPSHOT_BYTES == 1 << 30


def test_a_channel_that_breaks_forgets_the_leader(world: World) -> None:
    assert world.break_channel() == [("leader", -1, 4, None)]
    assert world.wait() == 20.0
    assert world.break_channel() == []
    assert world.wait() == 40.0
    assert world.answer(fetched(snapshot=(3, 40))) == [("leader", 1, 4, LEADER)]
    assert world.break_channel() == [("leader", -1, 4, None)]


@pytest.mark.expects_log("cannot be used", "metadata log cannot be followed")
def test_a_damaged_batch_is_asked_for_again(world: World) -> None:
    world.fails = CorruptMessage("damaged")
    assert world.answer(fetched(records=b"x")) == []
    assert world.wait() == DAMAGE_RETRY_MS == 1_000.0
    world.answer(fetched(snapshot=(3, 40)))
    assert world.answer(piece(b"abcdef")) == []
    assert world.wait() == DAMAGE_RETRY_MS


@pytest.mark.expects_log("metadata log cannot be stored")
@pytest.mark.parametrize("last", [fetched(records=b"x"), fetched(snapshot=(3, 40))])
def test_a_log_that_cannot_be_stored_stops_the_observer(world: World, last: Any) -> None:
    world.fails = StorageError("full")
    told = world.answer(last)
    if world.then is not None:
        told = world.answer(piece(b"abcdef"))
    assert told == [("halted", world.fails)]
    assert (world.later, world.then, world.closed[-1]) == ([], None, (LEADER, "this node stops"))


def test_a_node_of_another_cluster_stops(world: World) -> None:
    told = world.answer(fetched(error=ErrorCode.INCONSISTENT_CLUSTER_ID))
    assert told == [("refused", ErrorCode.INCONSISTENT_CLUSTER_ID)]
    assert (world.later, world.then) == ([], None)


def test_an_observer_that_was_stopped_takes_no_answer_and_asks_nothing(world: World) -> None:
    world.observer.stop()
    assert world.answer(fetched(records=b"x")) == []
    world.observer.start()
    assert (world.later, world.then) == ([], None)


def test_a_stop_cancels_the_next_question_and_a_piece_that_comes_late_is_left(world: World) -> None:
    world.break_channel()
    world.observer.stop()
    ((_, _, timer),) = world.later
    assert timer.cancelled
    other = World()
    other.answer(fetched())
    other.wait()
    other.answer(fetched(snapshot=(3, 40)))
    other.observer.stop()
    assert other.answer(piece(b"abcdef")) == []


def test_an_answer_without_topics_is_an_error_of_the_whole_request(world: World) -> None:
    assert world.answer(SimpleNamespace(error_code=int(ErrorCode.UNKNOWN_SERVER_ERROR), responses=[])) == []
    assert world.wait() > 0
