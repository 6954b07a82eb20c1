"""also_to and divert_to beside a stage that owns positions: a transaction does not pass an element that a side sink has not done."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors import Flow, Keep, Sink
from streamactors.kafka import Consumer, Producer, ProducerRecord, ProducerSettings, Subscriptions, Transactional

N = 40


@pytest.fixture
def transactional(cluster: Any, request: Any) -> ProducerSettings:
    name = request.node.name
    return ProducerSettings(
        cluster.bootstrap_servers, transactional_id=name, commit_interval_ms=20, preflight_timeout_ms=30_000
    )


def values(messages: Any) -> list[int]:
    return [int(message.value()) for message in messages]


@pytest.mark.parametrize(
    ("side", "k"), [("map", 0), ("map", N - 1), ("boundary", N // 2), ("boundary", N - 1), ("slow", N - 1)]
)
def test_a_side_that_fails_aborts_the_transaction_and_the_next_run_repeats_what_was_not_done(
    settings: Any,
    transactional: ProducerSettings,
    system: Any,
    topic_with: Any,
    committed: Any,
    read_all: Any,
    cluster: Any,
    side: str,
    k: int,
) -> None:
    """Also in the last chunk: `also_to` has completed then and passes no failure on, and the transaction waited forever."""
    topic = topic_with(f"in-{side}-{k}", [b"%d" % n for n in range(N)])
    out = f"out-{side}-{k}"
    cluster.create_topic(out, partitions=1)
    seen: list[int] = []

    def see(record: Any, fails: bool) -> None:
        if fails and record.offset == k:
            raise LookupError(k)
        seen.append(record.offset)

    def run(fails: bool) -> Any:
        flow: Flow[Any, Any, Any] = Flow.map(lambda record: see(record, fails))
        if side == "boundary":
            flow = Flow.map(lambda record: record).async_boundary().map(lambda record: see(record, fails))
        elif side == "slow":
            flow = Flow.throttle(2_000, "1s").map(lambda record: see(record, fails))
        source = Transactional.source(settings, Subscriptions.topics(topic), until="end").also_to(
            flow.to(Sink.ignore())
        )
        copied = source.map(lambda record: ProducerRecord(out, record.value))
        return copied.to_mat(Transactional.sink(transactional), Keep.both).run(system)

    control, done = run(fails=True)
    assert isinstance(done.exception(30), LookupError)
    control.is_shutdown.exception(30)
    position = max(committed(topic)[0], 0)
    assert position <= k, "the failed element is not committed"
    assert set(range(position)) <= set(seen), "the side has done all that is committed"
    assert values(read_all(out)) == list(range(position))
    control, done = run(fails=False)
    done.result(30)
    control.is_shutdown.result(30)
    assert values(read_all(out)) == list(range(N))
    assert set(seen) == set(range(N))


def test_a_main_stream_that_fails_late_aborts_the_transaction_of_its_side(
    settings: Any,
    transactional: ProducerSettings,
    system: Any,
    topic_with: Any,
    committed: Any,
    read_all: Any,
    cluster: Any,
) -> None:
    topic = topic_with("in-main", [b"%d" % n for n in range(N)])
    cluster.create_topic("out-main", partitions=1)

    def fails(record: Any) -> None:
        if record.offset == N - 1:
            raise LookupError(N - 1)

    side = Flow.map(lambda record: ProducerRecord("out-main", record.value)).to(Transactional.sink(transactional))
    control, done = (
        Transactional.source(settings, Subscriptions.topics(topic), until="end")
        .also_to(side)
        .async_boundary()
        .map(fails)
        .to_mat(Sink.ignore(), Keep.both)
        .run(system)
    )
    assert isinstance(done.exception(30), LookupError)
    control.is_shutdown.exception(30)
    position = max(committed(topic)[0], 0)
    assert position < N
    assert values(read_all("out-main")) == list(range(position))


def test_dead_letters_beside_a_transaction_are_acknowledged_before_it_commits(
    settings: Any,
    transactional: ProducerSettings,
    producer_settings: Any,
    system: Any,
    topic_with: Any,
    committed: Any,
    read_all: Any,
    cluster: Any,
) -> None:
    topic = topic_with("in-diverted", [b"%d" % n for n in range(N)])
    for name in ("out-diverted", "odd"):
        cluster.create_topic(name, partitions=1)
    odd = Flow.map(lambda record: ProducerRecord("odd", record.value)).to(Producer.plain_sink(producer_settings))
    control, done = (
        Transactional.source(settings, Subscriptions.topics(topic), until="end")
        .divert_to(odd, when=lambda record: record.offset % 2)
        .map(lambda record: ProducerRecord("out-diverted", record.value))
        .to_mat(Transactional.sink(transactional), Keep.both)
        .run(system)
    )
    done.result(30)
    control.is_shutdown.result(30)
    assert values(read_all("odd")) == list(range(1, N, 2))
    assert values(read_all("out-diverted")) == list(range(0, N, 2))
    assert committed(topic) == {0: N}


@pytest.mark.parametrize("k", [0, N - 1])
def test_without_an_owner_a_side_that_fails_leaves_its_element_uncommitted(
    settings: Any, system: Any, topic_with: Any, committed: Any, k: int
) -> None:
    topic = topic_with(f"plain-{k}", [b"%d" % n for n in range(N)])

    def fails(record: Any) -> None:
        if record.offset == k:
            raise LookupError(k)

    control, done = (
        Consumer.source(settings, Subscriptions.topics(topic), until="end")
        .also_to(Sink.foreach(fails))
        .to_mat(Sink.ignore(), Keep.both)
        .run(system)
    )
    assert isinstance(done.exception(30), LookupError)
    control.is_shutdown.exception(30)
    assert max(committed(topic)[0], 0) <= k
