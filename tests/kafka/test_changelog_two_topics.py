"""Windows over two topics of our own broker: the older row goes first, exactly once over failures."""

from __future__ import annotations

import random

import pytest

from streamactors import ActorSystem, Flow, Keep
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.windows import TimeWindows
from streamactors.windows.stage import WindowStage
from tests.kafka._windows import CLOSED, produce, read, to_records

WINDOWS = TimeWindows.of_size(1_000).with_grace(0)


@pytest.mark.parametrize("failures", [0, 3])
def test_T_4_rows_of_two_topics_are_counted_once_and_none_is_late(cluster, read_all, monkeypatch, failures):
    monkeypatch.setattr(WindowStage, "max_idle_ms", 60_000)
    name = f"two-{failures}"
    given = [(i % 2, "k", 1_000_000 + i * 10) for i in range(4_000)]
    produce(cluster, f"{name}-left", given[:], 2)
    produce(cluster, f"{name}-right", [(p, k, t + 1) for p, k, t in given], 2)
    cluster.create_topic(f"{name}-out", partitions=2)
    settings = ConsumerSettings(
        cluster.bootstrap_servers, group_id=name, auto_offset_reset="earliest", commit_interval_ms=50
    )
    producing = ProducerSettings(cluster.bootstrap_servers, transactional_id=name, commit_interval_ms=20)
    dice = random.Random(failures)
    for left in range(failures, -1, -1):
        fuse = [dice.randrange(500, 3_000)] if left else []

        def burn(record, fuse=fuse):
            if fuse:
                fuse[0] -= 1
                if fuse[0] == 0:
                    raise RuntimeError("a failure")
            return record

        source = (
            Consumer.records(settings, Subscriptions.topics(f"{name}-left", f"{name}-right"), key="string", until="end")
            .map(burn).group_by_key().windowed_by(WINDOWS).count(name="seconds").suppress(CLOSED).to_stream()
        )  # fmt: skip
        with ActorSystem(name) as system:
            _, done = source.map(to_records(f"{name}-out")).to_mat(Transactional.sink(producing), Keep.both).run(system)
            if left:
                with pytest.raises(Exception, match="a failure"):
                    done.result(60)
            else:
                done.result(60)
    counts = read(read_all(f"{name}-out", 2))
    assert counts == sorted((p, f"k@{1_000_000 + s * 1_000}", 100) for p in (0, 1) for s in range(40))


def test_a_transactional_sink_beside_windows_of_two_topics_meets_them_at_the_same_positions(
    cluster, read_all, monkeypatch
):
    monkeypatch.setattr(WindowStage, "max_idle_ms", 60_000)
    given = [(i % 2, "k", 1_000_000 + i * 10) for i in range(4_000)]
    for topic in ("beside-left", "beside-right"):
        produce(cluster, topic, given, 2)
    for topic in ("beside-out", "beside-copy"):
        cluster.create_topic(topic, partitions=2)
    settings = ConsumerSettings(
        cluster.bootstrap_servers, group_id="beside", auto_offset_reset="earliest", commit_interval_ms=20
    )
    producing = ProducerSettings(cluster.bootstrap_servers, transactional_id="beside", commit_interval_ms=10)
    copy = Flow.map(
        lambda row: ProducerRecord("beside-copy", b"1", f"{row.key}@{row.timestamp}", row.context.partition)
    ).to(Transactional.sink(producing))
    source = (
        Consumer.records(settings, Subscriptions.topics("beside-left", "beside-right"), key="string", until="end")
        .also_to(copy).group_by_key().windowed_by(WINDOWS).count(name="seconds").suppress(CLOSED).to_stream()
    )  # fmt: skip
    with ActorSystem("beside") as system:
        _, done = source.map(to_records("beside-out")).to_mat(Transactional.sink(producing), Keep.both).run(system)
        done.result(60)
    counted = read(read_all("beside-out", 2))
    assert {name for _, name, _ in counted} == {f"k@{1_000_000 + s * 1_000}" for s in range(40)}
    assert len(read_all("beside-copy", 2)) == 8_000
