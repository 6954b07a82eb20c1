"""Results that stem from no row, in a transaction, while their partition moves to another instance: each is there once."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamactors import ActorSystem, Flow, Keep, Sink
from streamactors.engine.snapshot import snapshots
from streamactors.kafka import ConsumerSettings, ProducerSettings, Transactional
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from tests.kafka._windows import produce, to_records
from tests.kafka.test_changelog_silence import counting, records


class Instance:
    """A run of the graph, in a system of its own. Its other sink takes `slow_s` for each result."""

    def __init__(self, cluster, topic, name, slow_s, results, **settings):
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.slow_s, self.pool = slow_s, ThreadPoolExecutor(8)
        session = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200}
        self.reading = ConsumerSettings(
            cluster.bootstrap_servers,
            topic,
            "earliest",
            commit_interval_ms=20,
            poll_interval_ms=5,
            properties=session,
            **settings,
        )
        writing = ProducerSettings(
            cluster.bootstrap_servers, transactional_id=f"{topic}-{name}", commit_interval_ms=20, on_fenced="fail"
        )
        self.system = ActorSystem(name)
        counted = results(self.reading, topic).also_to(Flow.map_async(8, self.call).to(Sink.ignore()))
        written = counted.map(to_records("out-" + topic))
        self.control, self.done = written.to_mat(Transactional.sink(writing), Keep.both).run(self.system)

    def call(self, row):
        return self.pool.submit(self.slow, row)

    def slow(self, row):
        self.reached.set()
        self.go_on.wait(self.slow_s)
        return row

    def end(self):
        self.go_on.set()
        self.control.shutdown()
        error = self.done.exception(30)
        self.control.is_shutdown.exception(30)
        self.system.shutdown()
        return error


def by_silence(settings, topic):
    return records(settings, topic).via(counting("700ms"))


@pytest.mark.slow
@pytest.mark.parametrize(("slow_s", "revoke_timeout_ms"), [(2, 10_000), (30, 300)])
def test_windows_that_silence_closes_while_their_partition_moves(
    cluster, wait_for, read_all, slow_s, revoke_timeout_ms
):
    """A commit waits for the other sink, and silence closes a window -> a second member joins -> it finds the window open, and gives its result,
    too. So the partition waits for the commit; if that takes too long, the transaction is aborted."""
    topic = f"moves-{slow_s}"
    produce(cluster, topic, [], 2)
    cluster.create_topic("out-" + topic, partitions=2)
    first = Instance(cluster, topic, "a", slow_s, by_silence, revoke_timeout_ms=revoke_timeout_ms)
    produce(cluster, topic, [(1, "k1", 5_000)], 2)
    wait_for(first.reached.is_set)
    produce(cluster, topic, [(0, "k0", 5_000)], 2)
    second = Instance(cluster, topic, "b", 0.0, by_silence)
    wait_for(lambda: second.control.snapshot()["partitions"], 60)
    # rows much later close the windows that are still open, and are themselves closed by silence
    produce(cluster, topic, [(0, "z0", 900_000), (1, "z1", 900_000)], 2)
    first.go_on.set()
    wait_for(lambda: {b"z0@900000", b"z1@900000"} <= {each.key() for each in read_all("out-" + topic, 2)}, 60)
    errors = [first.end(), second.end()]
    found = Counter(each.key() for each in read_all("out-" + topic, 2))
    assert found == dict.fromkeys([b"k0@5000", b"k1@5000", b"z0@900000", b"z1@900000"], 1), errors
    assert errors[1] is None
    assert (errors[0] is None) == (slow_s == 2), errors


def source_has_ended(system):
    """True if no stage without inlets has an open outlet."""
    stages = [stage for shot in snapshots(system) for stage in shot.stages]
    return not any(stage.outlets_open for stage in stages if stage.ports[0] == 0)


def at_the_end(settings, topic):
    return records(settings, topic).via(counting())


def test_the_end_of_an_input_while_the_other_member_leaves(cluster, wait_for, read_all, monkeypatch):
    """A bounded read has ended, and its last windows are open. The other member leaves, so the group revokes the partition. No other member reads the
    rows again, so the revocation waits for the results of these windows, too."""
    revoking, drain = threading.Event(), OffsetTracker.drain

    def watched(self, keys, timeout_ms):
        if timeout_ms:
            revoking.set()
        return drain(self, keys, timeout_ms)

    topic = "leaves"
    produce(cluster, topic, [], 2)
    cluster.create_topic("out-" + topic, partitions=2)
    first, second = (Instance(cluster, topic, name, 30, at_the_end, revoke_timeout_ms=10_000) for name in ("a", "b"))
    second.go_on.set()
    wait_for(lambda: all(len(each.control.snapshot()["partitions"]) == 1 for each in (first, second)))
    mine = int(next(iter(first.control.snapshot()["partitions"]))[-1])
    rows = [*((mine, f"k{n}", 5_000) for n in range(30)), (mine, "z", 900_000)]
    produce(cluster, topic, rows, 2)
    wait_for(first.reached.is_set)
    first.control.stop_at_end()
    wait_for(lambda: source_has_ended(first.system))
    monkeypatch.setattr(OffsetTracker, "drain", watched)
    second.control.stop_at_end()
    assert second.control.is_shutdown.exception(30) is None
    assert revoking.wait(30)
    first.go_on.set()
    assert first.done.exception(60) is None
    assert [second.end(), first.end()] == [None, None]
    found = Counter(each.key() for each in read_all("out-" + topic, 2))
    assert found == dict.fromkeys([f"{key}@{timestamp}".encode() for _, key, timestamp in rows], 1)
