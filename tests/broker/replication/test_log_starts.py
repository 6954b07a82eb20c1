"""Where logs begin at two whole brokers: deleted records, the range of the leader, and the log of a new follower."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamactors.broker.errors import ErrorCode
from streamactors.broker.replication.replicas import Replicas
from tests.broker.replication.test_replicas import produce
from tests.broker.replication.two_brokers import TOPIC, Pair


def follower_stops(pair: Pair) -> None:
    """Broker 2 follows no more, and broker 1 leads alone."""
    live = pair.brokers[2]
    live.on_data_plane(live.replicas.stop)  # type: ignore[attr-defined]
    pair.elect(1, (1,))


def follower_begins_anew(pair: Pair, ends: tuple[int, int]) -> None:
    """Broker 2 follows again, until its log has these ends."""
    live = pair.brokers[2]
    follower = Replicas(live.node, live.node.partitions, *[live.replicas._membership] * 2)  # type: ignore[attr-defined]
    live.node.replication = live.replicas = follower  # type: ignore[attr-defined]
    live.on_data_plane(follower.start)
    pair.elect(1, (1,))
    pair.until(lambda: pair.ends(2) == ends)


def test_a_log_outside_the_range_of_the_leader_begins_where_the_leader_does(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        follower_stops(pair)
        for number in range(5):
            produce(pair, 1, f"v{number}".encode())
        leader = pair.partition(1).log
        leader.roll(0)
        leader.trim.advance_log_start(4, 0)
        pair.brokers[1].on_data_plane(lambda: None)
        follower_begins_anew(pair, (5, 5))
        assert pair.partition(2).log_start_offset == 4


def test_a_follower_begins_in_the_middle_of_a_batch_where_records_of_it_were_deleted(tmp_path: Path) -> None:
    # The records before offset 2 of a batch of five were deleted -> a new follower began at offset 2 -> the leader sent the whole batch, which
    # begins at 0 -> the follower refused it, at each fetch again. It never came into the ISR.
    with Pair(tmp_path) as pair:
        follower_stops(pair)
        assert produce(pair, 1, *(b"v%d" % number for number in range(5))) is ErrorCode.NONE
        assert pair.partition(1).log.trim.delete_records(2, 0) == 2
        follower_begins_anew(pair, (5, 5))
        assert pair.partition(2).log_start_offset == 2
        assert pair.content(1) == pair.content(2)


def test_records_are_deleted_by_the_leader_and_a_follower_follows_it(tmp_path: Path) -> None:
    # A follower cut its own log and answered that the records were deleted. The leader kept them.
    asked = {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 2}]}], "timeout_ms": 1_000}
    with Pair(tmp_path) as pair:
        for value in (b"a", b"b", b"c"):
            assert produce(pair, 1, value) is ErrorCode.NONE
        pair.until(lambda: pair.ends(2) == (3, 3))
        for broker, expected in ((2, (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)), (1, (ErrorCode.NONE, 2))):
            with pair.brokers[broker].client() as client:
                got: Any = client.call(21, 2, asked).topics[0].partitions[0]
            assert (got.error_code, got.low_watermark) == expected
        pair.until(lambda: pair.partition(2).log_start_offset == 2)
