"""Brokers that see different leaders of a partition, because some of them are cut off: whose end counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from streamactors.kafka import ConsumerSettings
from streamactors.kafka.client.offsets import newest_ends as module
from streamactors.kafka.client.offsets.end_views import EndView
from streamactors.kafka.client.offsets.newest_ends import KnownEpochs, PartitionEnd, newest_ends
from streamactors.kafka.errors import NoBroker, StaleAnswer
from streamactors.kafka.subscriptions import TopicPartition

KEY = TopicPartition("log", 0)
REPLICAS = {1: "one:1", 2: "two:2", 3: "three:3"}
OLD, NEW = EndView(100, 3, "id", REPLICAS), EndView(150, 4, "id", REPLICAS)
SETTINGS = ConsumerSettings("any:9092", "g", "earliest")


class Brokers:
    """What the first broker, and each other one by address, answers. None: it does not answer."""

    def __init__(self, first: EndView, **others: EndView | None) -> None:
        self.first = first
        self.others = others
        self.asked: list[str] = []

    def __call__(self, _settings: Any, keys: Iterable[TopicPartition], *, only: str = "", **_: Any) -> Any:
        self.asked.append(only)
        view = self.others[only.partition(":")[0]] if only else self.first
        if view is None:
            raise NoBroker("silent")
        return dict.fromkeys(keys, view)


def ends(brokers: Brokers, monkeypatch: pytest.MonkeyPatch, known: KnownEpochs | None = None) -> PartitionEnd:
    monkeypatch.setattr(module, "views_of_ends", brokers)
    return newest_ends(SETTINGS, [KEY], known=known or KnownEpochs())[KEY]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_TIMEOUT_MS", 0)
    monkeypatch.setattr(module, "AGAIN_S", 0.0)


def test_the_leader_of_the_newest_epoch_names_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    # A restore that asked the old leader ended at 100, and counted on from a state of which 50 entries were missing.
    found = ends(Brokers(OLD, one=OLD, two=NEW, three=NEW), monkeypatch)
    assert found == PartitionEnd(150, 4, "id", True)


def test_an_end_without_an_answer_of_every_replica_is_not_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ends(Brokers(OLD, one=OLD, two=None, three=OLD), monkeypatch) == PartitionEnd(100, 3, "id", False)
    away = EndView(100, 3, "id", {**REPLICAS, 2: ""})
    brokers = Brokers(away, one=away, three=away)
    assert not ends(brokers, monkeypatch).is_sure
    assert sorted(brokers.asked) == ["", "one:1", "three:3"]


def test_a_partition_with_one_replica_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = EndView(7, 0, "id", {1: "one:1"})
    brokers = Brokers(alone)
    assert ends(brokers, monkeypatch) == PartitionEnd(7, 0, "id", True)
    assert brokers.asked == [""]


def test_the_topic_that_most_brokers_know_counts_although_an_earlier_one_had_newer_epochs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again = EndView(1, 0, "second", REPLICAS)
    assert ends(Brokers(OLD, one=OLD, two=again, three=again), monkeypatch) == PartitionEnd(1, 0, "second", True)


def test_an_older_epoch_than_one_that_was_seen_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownEpochs()
    assert ends(Brokers(NEW, one=NEW, two=NEW, three=NEW), monkeypatch, known).offset == 150
    with pytest.raises(
        StaleAnswer, match=r"log-0: the leader of epoch 3 names the end 100, and a leader of epoch 4 is known"
    ):
        ends(Brokers(OLD, one=OLD, two=None, three=None), monkeypatch, known)
    known.saw("id", 0, 9)  # of a record that was read
    with pytest.raises(StaleAnswer, match="epoch 9 is known"):
        ends(Brokers(NEW, one=NEW, two=NEW, three=NEW), monkeypatch, known)


def test_epochs_of_a_topic_that_was_made_again_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownEpochs()
    known.saw("id", 0, 9)
    again = EndView(1, 0, "second", {1: "one:1"})
    assert ends(Brokers(again), monkeypatch, known).offset == 1


def test_a_stale_answer_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_TIMEOUT_MS", 60_000)
    known = KnownEpochs()
    known.saw("id", 0, 4)
    brokers = Brokers(OLD, one=OLD, two=None, three=None)
    genuine = module._ends

    def healed(*arguments: Any) -> Any:
        try:
            return genuine(*arguments)
        finally:
            brokers.others |= {"two": NEW}

    monkeypatch.setattr(module, "_ends", healed)
    assert ends(brokers, monkeypatch, known).offset == 150


def test_known_epochs_are_bounded() -> None:
    known = KnownEpochs(most=2)
    for topic in ("a", "b", "c"):
        known.saw(topic, 0, 5)
    assert known.saw("a", 0, 1) == 1
    assert known.saw("c", 0, 1) == 5


def test_a_real_cluster_names_the_end_its_topic_and_the_epoch(kafka_cluster: Any) -> None:
    kafka_cluster.create_topic("log")
    settings = ConsumerSettings(kafka_cluster.bootstrap_servers, "g", "earliest")
    before = newest_ends(settings, [KEY], known=KnownEpochs())[KEY]
    assert (before.offset, before.is_sure) == (0, True)
    assert before.topic_id is not None
    leader = kafka_cluster.leader("log", 0)
    kafka_cluster.kill(leader)
    kafka_cluster.await_isr("log", 0, {1, 2, 3} - {leader}, timeout=30)
    after = newest_ends(settings, [KEY], known=KnownEpochs())[KEY]
    assert after.topic_id == before.topic_id
    assert after.leader_epoch > before.leader_epoch
    assert not after.is_sure, "a broker with a replica is away"
