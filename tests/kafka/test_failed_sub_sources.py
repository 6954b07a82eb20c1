"""A partition whose stream has failed: it is not read until it is assigned again, and is read then, however soon that is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.kafka.reading.messages import Commits
from streamactors.kafka.sources.partitioned_logic import PartitionedSourceLogic
from streamactors.kafka.subscriptions import TopicPartition

KEY = TopicPartition("t", 0)


class World:
    """A partitioned source without a consumer; `given` has the partitions that it has handed out."""

    def __init__(self) -> None:
        settings = SimpleNamespace(wait_close_partition_ms=500)
        plan: Any = SimpleNamespace(
            commits=Commits.NOBODY,
            commits_done=False,
            offsets_on_assign=None,
            on_revoke=None,
            settings=settings,
            until_end=False,
        )
        self.logic: Any = PartitionedSourceLogic(plan)
        self.given: list[TopicPartition] = []
        self.logic.outlets = [
            SimpleNamespace(can_push=True, push=lambda pairs: self.given.extend(key for key, _ in pairs))
        ]
        self.timers: list[Any] = []
        self.logic.schedule_once = lambda timer, delay_ms: self.timers.append(timer)

    def assign(self, epoch: int) -> None:
        self.logic._new_feed(KEY, epoch)
        self.logic.on_assigned([(KEY, epoch)])

    def fail(self) -> None:
        sub = self.logic._subs[KEY]
        sub.failure = RuntimeError("a failure")
        self.logic._on_sub_source_ended(sub)


@pytest.mark.expects_log("has failed (RuntimeError: a failure)")
@pytest.mark.parametrize("soon", [True, False])
def test_a_partition_whose_stream_has_failed_is_handed_out_when_it_is_assigned_again(soon: bool) -> None:
    """All partitions are revoked and given out again at once, as eager assignors do -> the new assignment went to the source that had failed -> nobody read
    the partition, and nothing said so."""
    world = World()
    world.assign(1)
    world.fail()
    assert world.given == [KEY]
    world.logic.on_revoked([(KEY, 1)])
    if not soon:
        world.logic.on_timer(world.timers.pop())
    world.assign(2)
    assert world.given == [KEY, KEY]
    assert world.logic._subs[KEY].feed.epoch == 2


def test_a_partition_that_is_assigned_again_soon_keeps_a_source_that_runs() -> None:
    world = World()
    world.assign(1)
    world.logic.on_revoked([(KEY, 1)])
    world.assign(2)
    assert world.given == [KEY]
    assert world.logic._subs[KEY].feed.epoch == 2
