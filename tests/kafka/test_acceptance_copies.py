"""Acceptance case 55: transactional copies over random graphs, ended at random.

Where they come from: the specifications of Alpakka Kafka and Pekko Connectors Kafka, behaviour only."""

from __future__ import annotations

import random
import threading
from dataclasses import replace

import pytest

from streamactors import ActorSystem, Keep
from streamactors.kafka import (
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from tests.kafka._random_pipelines import Pipeline


def numbers(n):
    return [b"%d" % i for i in range(n)]


def copy_in_rounds(cluster, settings, topic, count, seed, read_all):
    """Copy through a random exact graph, ended at random and begun again, and compare what is there with what must be."""
    dice = random.Random(seed)
    pipeline = Pipeline.drawn(dice, exact=True, sides=False)
    name = f"{topic}-out-{seed}"
    cluster.create_topic(name, partitions=2)
    group = settings.with_group_id(f"{topic}-{seed}")
    group = replace(group, max_poll_records=dice.choice([7, 500]))
    producer = ProducerSettings(cluster.bootstrap_servers, transactional_id=name, commit_interval_ms=10)
    for number in range(8):
        end = dice.choice(["abrupt", "raises", "stop"]) if number < 7 else None
        left, reached = dice.randint(1, count), threading.Event()

        def write(element, end=end, reached=reached, counter=iter(range(left - 1, -(10**9), -1))):
            if next(counter) == 0:
                reached.set()
                if end == "raises":
                    raise ValueError("told to")
            (record,) = element
            return ProducerRecord(name, record.value, partition=record.partition)

        with ActorSystem("copy") as system:
            source = Transactional.source(group, Subscriptions.topics(topic), until="end").map(lambda record: (record,))
            written = pipeline.built(source, None).map(write).to_mat(Transactional.sink(producer), Keep.both)
            control, done = written.run(system)
            done.add_done_callback(lambda _, reached=reached: reached.set())
            assert reached.wait(60), f"seed {seed}: nothing moves in {pipeline.steps}"
            if end == "stop":
                control.stop()
            elif end == "abrupt":
                system.shutdown(10)
            error = done.exception(60)
            control.is_shutdown.exception(60)
        if end is None:
            assert error is None, f"seed {seed}: {pipeline.steps}: {error!r}"
    keeps = pipeline.keeps["main"]
    times = 2 ** sum(step[0] == "flat concat" for step in pipeline.steps)  # each of them emits every element twice
    expected = {
        partition: [o for o in range(count // 2) if keeps((topic, partition, o)) for _ in range(times)]
        for partition in (0, 1)
    }
    found = {0: [], 1: []}
    for message in read_all(name, 2):
        found[message.partition()].append(int(message.value()) // 2)
    assert found == expected, f"seed {seed}: {pipeline.steps}"


@pytest.mark.parametrize("seed", range(3))
def test_55_a_copy_that_is_ended_at_random_is_exact(cluster, settings, topic_with, read_all, seed):
    topic = topic_with(f"exact-{seed}", numbers(400), 2)
    copy_in_rounds(cluster, settings, topic, 400, seed, read_all)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_55_a_hundred_copies_that_are_ended_at_random_are_exact(cluster, settings, topic_with, read_all):
    topic = topic_with("exact", numbers(400), 2)
    for seed in range(100, 200):
        copy_in_rounds(cluster, settings, topic, 400, seed, read_all)
