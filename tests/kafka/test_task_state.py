"""Which offset of a changelog goes to the disk with a committed cut."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from streamactors.kafka import ConsumerSettings
from streamactors.kafka.between.task_state import TaskState
from streamactors.kafka.errors import NoBroker
from streamactors.kafka.subscriptions import TopicPartition

LOG = TopicPartition("log", 0)


class Broker:
    """An admin client of a broker with one changelog partition."""

    def __init__(self):
        self.end = 0
        self.gone = False

    def offsets(self, keys):
        if self.gone:
            raise NoBroker("gone")
        return dict.fromkeys(keys, self.end)


@pytest.fixture
def written():
    """(state, broker, the offsets that went to the disk, one for each cut)."""
    tasks = SimpleNamespace(changelog_settings={}, time_first=False)
    settings = ConsumerSettings("localhost:1", "g")
    state = TaskState(settings, "app", {"store": "log"}, tasks, None, fenced=False, of_run=lambda: ())
    offsets, broker = [], Broker()
    state._admin = broker
    state._disks[0] = SimpleNamespace(commit=lambda found: offsets.append(found.get("store")))
    return state, broker, offsets


def cut(state, broker, entries, meanwhile=lambda: None):
    number = state.sent()
    broker.end += entries
    meanwhile()
    state.commit(number, {LOG: entries}, [0])


def test_the_offset_follows_the_cuts(written):
    state, broker, offsets = written
    for entries in (3, 2, 5):
        cut(state, broker, entries)
    assert offsets == [3, 5, 10]


def test_a_cut_that_is_sent_before_the_end_is_asked_for_costs_one_offset_and_not_all_later_ones(written):
    state, broker, offsets = written
    cut(state, broker, 3)
    cut(state, broker, 2, meanwhile=state.sent)
    cut(state, broker, 5)
    cut(state, broker, 1)
    assert offsets == [3, None, 10, 11]


def test_a_broker_that_was_gone_costs_the_offset_of_that_cut(written):
    state, broker, offsets = written
    broker.gone = True
    cut(state, broker, 3)
    broker.gone = False
    cut(state, broker, 2)
    assert offsets == [None, 5]


def test_entries_of_a_former_owner_hold_the_offset_back(written):
    state, broker, offsets = written
    cut(state, broker, 3)
    broker.end += 1
    cut(state, broker, 2)
    cut(state, broker, 2)
    assert offsets == [3, None, None]
