"""PartitionAssignmentHandler: what a user's code is told when partitions come and go, and what it may do then."""

from __future__ import annotations

import threading

import pytest

from streamactors import Keep, Sink
from streamactors.errors import BuildError
from streamactors.kafka import Consumer, MetadataClient, PartitionAssignmentHandler, Subscriptions
from streamactors.kafka.errors import KafkaError


class Noted(PartitionAssignmentHandler):
    """Notes each call: (name, partitions, assignment, committed)."""

    def __init__(self):
        self.calls = []
        self.consumer = None

    def note(self, name, partitions, consumer):
        self.calls.append(
            (
                name,
                sorted(p for _, p in partitions),
                len(consumer.assignment()),
                sum(consumer.committed(partitions).values()),
            )
        )
        self.consumer = consumer

    def on_assigned(self, partitions, consumer):
        self.note("assigned", partitions, consumer)

    def on_revoked(self, partitions, consumer):
        self.note("revoked", partitions, consumer)

    def on_lost(self, partitions, consumer):
        self.note("lost", partitions, consumer)

    def on_stop(self, partitions, consumer):
        self.note("stop", partitions, consumer)


def values(n):
    return [b"%d" % i for i in range(n)]


def test_a_handler_hears_of_its_partitions_as_two_members_share_them(settings, system, topic_with, wait_for):
    topic = topic_with("shared", values(40), 4)
    first, second, seen = Noted(), Noted(), []

    def run(handler):
        subscription = Subscriptions.topics(topic).with_assignment_handler(handler)
        return Consumer.source(settings, subscription).to_mat(Sink.foreach(seen.append), Keep.both).run(system)

    one, done = run(first)
    wait_for(lambda: len(seen) == 40)
    assert first.calls == [("assigned", [0, 1, 2, 3], 4, 0)]
    other, done_too = run(second)
    wait_for(lambda: [call[0] for call in second.calls] == ["assigned"])
    wait_for(lambda: len(one.snapshot()["partitions"]) == 2 == len(other.snapshot()["partitions"]))
    names = [call[0] for call in first.calls]
    assert names[:2] == ["assigned", "revoked"]
    revoked = first.calls[1]
    assert revoked[3] == 10 * len(revoked[1]), "what is done is committed before the handler hears of the revocation"
    with pytest.raises(KafkaError, match="has returned: its consumer can be used only while the method runs"):
        first.consumer.assignment()
    for control, end in ((other, done_too), (one, done)):
        control.shutdown().result(30)
        end.result(30)
        control.is_shutdown.result(30)
    name, partitions, assigned, committed = second.calls[-1]
    assert (name, len(partitions), assigned, committed) == ("stop", 2, 2, 20)
    assert first.calls[-1][0] == "stop"
    assert len(seen) == 40


def test_a_handler_looks_up_where_to_begin_and_seeks(settings, system, topic_with):
    topic = topic_with("sought", values(30), 3)
    found = {}

    class Last(PartitionAssignmentHandler):
        def on_assigned(self, partitions, consumer):
            found["times"] = consumer.offsets_for_times(dict.fromkeys(partitions, 0))
            found["later"] = set(consumer.offsets_for_times(dict.fromkeys(partitions, 1 << 50)).values())
            found["first"] = consumer.beginning_offsets(partitions)
            for partition, end in consumer.end_offsets(partitions).items():
                consumer.seek(partition, end - partition.partition - 1)

        def on_stop(self, partitions, consumer):
            found["positions"] = {partition.partition: consumer.position(partition) for partition in partitions}
            with pytest.raises(KafkaError, match="on_stop: seek is possible in on_assigned only"):
                consumer.seek(next(iter(partitions)), 0)

    subscription = Subscriptions.topics(topic).with_assignment_handler(Last())
    source = Consumer.source(settings, subscription, until="end")
    control, done = source.map(lambda r: (r.partition, r.offset)).to_mat(Sink.to_list(), Keep.both).run(system)
    assert sorted(done.result(30)) == [(0, 9), (1, 8), (1, 9), (2, 7), (2, 8), (2, 9)]
    control.is_shutdown.result(30)
    assert found["positions"] == {0: 10, 1: 10, 2: 10}
    assert set(found["first"].values()) == set(found["times"].values()) == {0}
    assert found["later"] == {-1}


def test_a_handler_commits(settings, system, topic_with):
    topic = topic_with("handled", values(10), 1)

    class Skip(PartitionAssignmentHandler):
        def on_stop(self, partitions, consumer):
            consumer.commit(dict.fromkeys(partitions, 7))

    subscription = Subscriptions.topics(topic).with_assignment_handler(Skip())
    control, done = (
        Consumer.plain_source(settings, subscription, until="end").to_mat(Sink.ignore(), Keep.both).run(system)
    )
    done.result(30)
    control.is_shutdown.result(30)
    with MetadataClient(settings) as metadata:
        assert metadata.committed([(topic, 0)]) == {(topic, 0): 7}


@pytest.mark.expects_log("consumer of")
@pytest.mark.parametrize("method", ["on_assigned", "on_stop"])
def test_a_handler_that_raises_fails_the_stream_and_is_named(settings, system, topic_with, method):
    topic = topic_with(f"raising-{method}", values(3), 1)

    def raises(partitions, consumer):
        raise ValueError("no")

    handler = PartitionAssignmentHandler()
    setattr(handler, method, raises)
    subscription = Subscriptions.topics(topic).with_assignment_handler(handler)
    control, done = Consumer.source(settings, subscription, until="end").to_mat(Sink.ignore(), Keep.both).run(system)
    error = control.is_shutdown.exception(30)
    assert isinstance(error, ValueError)
    assert any(f"in stage {method}" in note for note in error.__notes__), error.__notes__
    done.exception(30)


def test_a_seek_that_is_not_possible_names_it(settings, system, topic_with):
    topic = topic_with("bad-seeks", values(3), 1)
    said, told = [], threading.Event()

    class Wrong(PartitionAssignmentHandler):
        def on_assigned(self, partitions, consumer):
            (partition,) = partitions
            for key, offset in ((("other", 0), 0), (partition, -1), (partition, "0")):
                with pytest.raises(KafkaError) as raised:
                    consumer.seek(key, offset)
                said.append(str(raised.value))
            told.set()

    subscription = Subscriptions.topics(topic).with_assignment_handler(Wrong())
    Consumer.source(settings, subscription, until="end").run_with(Sink.ignore(), system).result(30)
    assert told.is_set()
    assert "is not among the partitions that were assigned" in said[0]
    assert all("an offset is an integer of at least 0" in each for each in said[1:])


def test_what_is_no_handler_is_refused():
    with pytest.raises(BuildError, match="expects a PartitionAssignmentHandler, got function; derive a class from it"):
        Subscriptions.topics("t").with_assignment_handler(lambda partitions: None)
