"""Which partitions are asked for their ends: those that no fetch confirms, at most every five seconds."""

from __future__ import annotations

import logging
import threading

from streamactors.kafka import ConsumerSettings
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.reading.delivery import AssignedPartition
from streamactors.kafka.reading.partition_bounds import MOST_DATED, STALE_S, UNDATED_S, PartitionBounds
from streamactors.kafka.subscriptions import TopicPartition

KEY, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


class Bounds(PartitionBounds):
    def __init__(self) -> None:
        self.now_s = 100.0
        super().__init__(ConsumerSettings("127.0.0.1:1"), lambda: self.now_s)


def partition(key=KEY, **state):
    made = AssignedPartition(key, 1, None)
    for name, value in state.items():
        setattr(made, name, value)
    return {key: made}


def test_a_new_assignment_is_asked_for_once_and_waited_for():
    bounds = Bounds()
    due, wait = bounds.look(partition(), {})
    assert (list(due), wait) == ([KEY], True)
    assert bounds.look(partition(), {}) == ({}, False), "the next snapshot does not ask again"
    bounds.now_s += STALE_S
    due, wait = bounds.look(partition(), {})
    assert (list(due), wait) == ([KEY], False), "no snapshot waits twice"


def test_another_assignment_of_the_same_partition_begins_anew():
    bounds = Bounds()
    bounds.look(partition(), {})
    again = partition()
    again[KEY].epoch = 2
    assert bounds.look(again, {})[1]


def test_a_partition_whose_fetches_move_its_end_is_never_asked_for():
    bounds = Bounds()
    for second in range(60):
        bounds.now_s += 1
        assert bounds.look(partition(position=second), {KEY: 1_000 + second}) == ({}, False)
    assert bounds.known()[KEY].end == 1_059


def test_a_partition_at_its_end_is_not_asked_for_and_a_paused_one_is():
    bounds = Bounds()
    bounds.look(partition(position=5, at_end=True), {KEY: 5})
    bounds.now_s += 60
    assert bounds.look(partition(position=5, at_end=True), {KEY: 5}) == ({}, False)
    bounds.now_s += STALE_S
    assert list(bounds.look(partition(position=5, at_end=True, paused=True), {KEY: 5})[0]) == [KEY]


def test_a_full_buffer_stops_the_fetches_so_the_end_is_asked_for():
    bounds = Bounds()
    bounds.look(partition(position=5), {KEY: 1_000})
    bounds.now_s += STALE_S - 1
    assert bounds.look(partition(position=6), {KEY: 1_000})[0] == {}
    bounds.now_s += 1
    assert list(bounds.look(partition(position=6), {KEY: 1_000})[0]) == [KEY]
    assert bounds.look(partition(position=7), {KEY: 1_000})[0] == {}


def test_a_partition_whose_source_says_where_it_begins_has_no_begin_of_the_group():
    bounds = Bounds()
    assert bounds.look(partition(), {KEY: 7}, {KEY}) == ({}, False)
    assert bounds.known()[KEY].begin is None


def test_partitions_that_are_gone_are_forgotten():
    bounds = Bounds()
    bounds.look(partition() | partition(OTHER), {})
    bounds.look(partition(OTHER), {})
    assert set(bounds.known()) == {OTHER}


def test_a_record_that_does_not_come_by_itself_is_read_for_its_timestamp_at_a_bounded_rate():
    bounds = Bounds()
    bounds.look(partition(), {KEY: 9})
    assert bounds.undated({KEY: 4}) == {}, "its fetch may be on the way"
    bounds.now_s += UNDATED_S
    assert bounds.undated({KEY: 4}) == {KEY: 4}
    bounds.now_s += STALE_S - 1
    assert bounds.undated({KEY: 5}) == {}
    bounds.now_s += 1
    assert bounds.undated({KEY: 5}) == {KEY: 5}
    bounds.undated({})
    bounds.now_s += 60
    assert bounds.undated({KEY: 7}) == {}, "the wait begins anew"


def test_a_thousand_partitions_are_read_a_hundred_at_a_time():
    bounds = Bounds()
    many = {TopicPartition("t", number): number for number in range(1_000)}
    bounds.look({key: AssignedPartition(key, 1, None) for key in many}, {})
    bounds.undated(many)
    bounds.now_s += UNDATED_S
    first, second = bounds.undated(many), bounds.undated(many)
    assert (len(first), len(second), first.keys() & second.keys()) == (MOST_DATED, MOST_DATED, set())


def test_a_question_that_fails_is_logged_once_at_warning_until_one_is_answered(monkeypatch, caplog):
    # It was logged at DEBUG: lag was missing on the page and in the metrics, and nothing said why.
    caplog.set_level(logging.DEBUG, "streamactors.kafka")
    bounds, answers = Bounds(), [False, False, True, False]

    def ask(due, starts):
        if not answers.pop(0):
            raise KafkaError("TOPIC_AUTHORIZATION_FAILED")

    monkeypatch.setattr(bounds, "_ask", ask)
    for key in (KEY, KEY, KEY, OTHER):
        answered = threading.Event()
        due, _ = bounds.look(partition(key), {})
        bounds.ask(due, {}, {}, answered.set)
        assert answered.wait(10)
        bounds.close()
        bounds.now_s += STALE_S
    told = [record for record in caplog.records if "are not known" in record.getMessage()]
    assert [record.levelno for record in told] == [logging.WARNING, logging.DEBUG, logging.WARNING]
    assert "the ends of t-0 are not known" in told[0].getMessage()
    assert "TOPIC_AUTHORIZATION_FAILED" in told[0].getMessage()
    assert "DESCRIBE" in told[0].getMessage()
