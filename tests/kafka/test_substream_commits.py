"""Positions of Kafka records behind substreams: committed when all that stems from earlier records is done, and not before."""

from __future__ import annotations

import pytest

from streamactors import BroadcastHub, Flow, Keep, RestartSettings, RetryFlow, Sink
from streamactors.errors import BuildError
from streamactors.kafka import Consumer, Subscriptions


def test_records_behind_substreams_are_committed_to_the_end(settings, system, topic_with, committed):
    topic = topic_with("grouped", [b"%d" % i for i in range(3_000)], 3)
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end")
    sums = source.map(lambda record: int(record.value)).group_by(lambda x: x % 7, 7).grouped(5).merge_substreams()
    control, done = sums.to_mat(Sink.to_list(), Keep.both).run(system)
    assert sorted(x for group in done.result(30) for x in group) == list(range(3_000))
    control.is_shutdown.result(30)
    assert committed(topic, 3) == {0: 1_000, 1: 1_000, 2: 1_000}


def test_what_waits_in_a_substream_is_not_committed_and_comes_again(settings, system, topic_with, committed):
    topic = topic_with("held", [b"%d" % i for i in range(100)])
    stored = []

    def store(group):
        if 60 in group:
            raise KeyError("the store is gone")
        stored.extend(group)

    source = Consumer.source(settings, Subscriptions.topics(topic))
    groups = source.map(lambda record: int(record.value)).group_by(lambda x: x % 7, 7).grouped(3).merge_substreams()
    control, done = groups.to_mat(Sink.foreach(store), Keep.both).run(system)
    assert isinstance(done.exception(30), KeyError)
    control.is_shutdown.exception(30)
    at = max(0, committed(topic)[0])
    assert set(range(at)) <= set(stored), "a committed record was stored"
    again = Consumer.source(settings, Subscriptions.topics(topic), until="end").map(lambda record: int(record.value))
    assert set(stored) | set(again.run_with(Sink.to_list(), system).result(30)) == set(range(100)), "nothing is lost"


def test_a_retried_element_is_committed_behind_its_result(settings, system, topic_with, committed):
    topic = topic_with("retried", [b"%d" % i for i in range(20)])
    tried = []
    flow = RetryFlow.with_backoff(
        RestartSettings("1ms", "1ms"),
        Flow.map(lambda x: tried.append(x) or x),
        lambda x, y: x - 100 if x >= 100 else None,
    )
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end")
    control, done = (
        source.map(lambda record: int(record.value) + 100).via(flow).to_mat(Sink.to_list(), Keep.both).run(system)
    )
    assert done.result(30) == list(range(20))
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 20}
    assert len(tried) == 40


@pytest.mark.parametrize(
    ("through", "stage"),
    [
        (
            lambda source: (
                source.group_by(lambda record: 1, 1).flat_map_prefix(1, lambda _: Flow.identity()).merge_substreams()
            ),
            "group_by",
        ),
        (lambda source: source.prefix_and_tail(1), "prefix_and_tail"),
        (lambda source: source.via(Flow.lazy_flow(Flow.identity)), "lazy_flow"),
    ],
)
def test_a_flow_that_positions_cannot_pass_is_refused_by_name(settings, system, topic_with, through, stage):
    topic = topic_with(f"refused-{stage}", [])
    source = Consumer.source(settings, Subscriptions.topics(topic), until="end")
    with pytest.raises(BuildError, match=stage):
        through(source).run_with(Sink.ignore(), system)


def test_a_hub_refuses_the_positions_of_a_run(settings, system, topic_with):
    topic = topic_with("hub", [])
    with pytest.raises(BuildError, match=r"broadcast_hub.*hands its elements to other runs"):
        Consumer.source(settings, Subscriptions.topics(topic)).run_with(BroadcastHub.sink(), system)
