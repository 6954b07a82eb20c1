"""How far a source runs ahead of maps inside it: they take what was delivered slice by slice, and what lies between counts as asked.

It did not: each delivery asked for as much again while slow steps had most of the last one before them, and a whole topic came to lie
in the stage, where no limit of the buffers holds."""

from __future__ import annotations

from streamactors import Keep, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, ProducerSettings, Subscriptions
from streamactors.kafka.sources.lane import AHEAD

RECORDS = 12_000


def test_slow_steps_inside_a_source_have_no_more_before_them_than_was_asked():
    with Cluster() as cluster:
        cluster.create_topic("t", 2)
        records = Source.range(0, RECORDS).map(lambda n: ProducerRecord("t", str(n), partition=n % 2))
        records.run_with(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))).result(60)
        ahead = []
        seen = 0

        def slow(record):
            nonlocal seen
            seen += 1
            sum(range(10_000))
            return record

        settings = ConsumerSettings(
            cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest", max_poll_records=RECORDS
        )
        source = Consumer.source(settings, Subscriptions.topics("t"), until="end")
        control, done = source.map(slow).to_mat(Sink.count(), Keep.both).run()
        while not done.done():
            seen_before = seen
            ahead.append(control.snapshot(60).get("delivered", 0) - seen_before)
        assert done.result(0) == seen == RECORDS
        assert 0 < max(ahead) <= 2 * AHEAD
        control.is_shutdown.result(60)
