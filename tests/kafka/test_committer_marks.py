"""The marks that pass a Committer: each behind the batch with the offsets before it."""

from __future__ import annotations

from confluent_kafka import Message

from streamactors import ActorSystem
from streamactors.clock import VirtualClock
from streamactors.kafka import CommitterSettings
from streamactors.kafka.committable import CommittableOffset, Origin
from streamactors.kafka.committing.committer_stage import CommitterStage
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.subscriptions import TopicPartition
from tests.stages.harness import Bench

KEY = TopicPartition("t", 0)


def test_a_signal_behind_the_last_batch_waits_for_this_batch_only():
    # The batch was being committed and nothing had come since: no timer was set, so a signal, and every later one, waited for the next offset.
    replies = []
    origin = Origin(KEY, 1, OffsetTracker(), replies.append)
    offsets = [CommittableOffset((None, Message(topic="t", partition=0, offset=at), origin)) for at in range(2)]
    stage = CommitterStage("committer", CommitterSettings(max_batch=2), None)
    with ActorSystem("signals", clock=VirtualClock()) as system, Bench(system, stage) as bench:
        bench.request(10)
        bench.send(*offsets)
        bench.signal()
        bench.signal()
        assert bench.seen == []
        (reply,) = replies
        reply.try_complete(None)
        bench.settle()
        bench.signal()
        assert [kind for kind, _ in bench.seen] == ["element", "signal", "signal", "signal"]
