"""Which offset of a changelog goes to the disk with a committed cut.

An offset that is too far loses entries; one that is too near costs time at the next start. Formerly the offset was asked of the broker after each
cut, and an answer that came after the next cut was sent was dropped. With 50 ms between commits and a slow broker no answer was in time. Then the disk
of a killed member named no offset, and the next start emptied it (`test_two_members_killed_in_the_middle_join_each_row_once` found that)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from streamactors.kafka import ConsumerSettings
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.state.changelogs.stored_tasks import KeptState, StoredTasks
from streamactors.kafka.subscriptions import TopicPartition

LOG = TopicPartition("log", 0)


class Changelog:
    """A task on disk and the end of its changelog. `offsets`: those that went to the disk, one for each cut."""

    def __init__(self):
        tasks = SimpleNamespace(changelog_settings={}, time_first=False)
        settings = ConsumerSettings("localhost:1", "g")
        self.state = StoredTasks(KeptState(settings, "app", {"store": "log"}, tasks, SimpleNamespace(), list))
        self.end = 0
        self.restored()

    def restored(self):
        self.offsets = []
        self.state._disks[0] = SimpleNamespace(commit=lambda found: self.offsets.append(found.get("store")))
        self.state._ends[LOG] = self.end
        self.state._marked.discard(LOG)
        self.state._since.clear()

    def sent(self, entries):
        self.end += entries
        return self.state.cut([ProducerRecord("log", b"v", b"k", 0)] * entries, [0])

    def transaction(self, *cuts):
        sent = [self.sent(entries) for entries in cuts]
        self.end += any(cuts)  # the marker
        self.state.committed(sent)

    def acknowledged(self, entries):
        self.state.acknowledged(self.sent(entries), {LOG: self.end} if entries else {})


@pytest.fixture
def log():
    return Changelog()


def test_an_acknowledged_cut_brings_the_offset_behind_its_entries(log):
    for entries in (3, 2, 0, 5):
        log.acknowledged(entries)
    assert log.offsets == [3, 5, None, 10]


def test_acknowledged_cuts_that_are_written_late_bring_their_own_offsets(log):
    first, behind_first = log.sent(3), log.end
    second, behind_second = log.sent(2), log.end
    log.state.acknowledged(first, {LOG: behind_first})
    log.state.acknowledged(second, {LOG: behind_second})
    assert log.offsets == [3, 5]


def test_entries_of_a_former_owner_hold_the_offset_back(log):
    log.acknowledged(3)
    log.end += 1
    log.acknowledged(2)
    log.acknowledged(2)
    assert log.offsets == [3, None, None]


def test_a_transaction_counts_its_entries_and_the_marker_of_the_transaction_before(log):
    for entries in (3, 2, 0, 5):
        log.transaction(entries)
    assert log.offsets == [3, 6, None, 12]
    assert log.end == 13, "the last marker may not be there when the commit is answered"


def test_two_cuts_in_one_transaction_have_one_marker(log):
    log.transaction(3, 2)
    log.transaction(1)
    assert log.offsets == [3, 5, 7]


def test_an_aborted_attempt_leaves_the_offset_before_the_end_and_never_behind_it(log):
    log.transaction(3)
    log.end += 2 + 1  # written, aborted after a rebalance, and written again
    log.transaction(2)
    log.transaction(4)
    assert log.offsets == [3, 6, 11]
    assert log.offsets[-1] < log.end


@pytest.mark.parametrize("in_transaction", [True, False])
def test_a_cut_of_a_partition_that_went_and_came_back_does_not_move_the_offset(log, in_transaction):
    cut = log.sent(3)
    log.restored()  # it has read these entries
    if in_transaction:
        log.state.committed([cut])
    else:
        log.state.acknowledged(cut, {LOG: 3})
    assert log.offsets == []
    log.acknowledged(2)
    assert log.offsets == [5]


def test_the_end_of_the_stage_is_the_end_of_its_standby_copies(log):
    ended = []
    log.state._standby = SimpleNamespace(close=lambda: ended.append(True))
    log.state._folder = SimpleNamespace(close_task=lambda stores, number: ended.append(number))
    log.state.close()
    assert ended == [True, 0]


def test_standby_copies_that_cannot_follow_are_told_and_tried_again(log, caplog):
    def step(_):
        raise KafkaError("no broker answers")

    log.state._standby = SimpleNamespace(step=step)
    log.state.follow()
    assert "app: standby copies could not be brought up to date, and are tried again: no broker answers" in caplog.text


def test_a_task_in_memory_has_nothing_to_write_with_a_commit():
    tasks = SimpleNamespace(changelog_settings={}, time_first=False)
    state = StoredTasks(KeptState(ConsumerSettings("localhost:1", "g"), "app", {"store": "log"}, tasks, None, list))
    cut = state.cut([ProducerRecord("log", b"v", b"k", 0)], [0])
    state.acknowledged(cut, {LOG: 1})
    state.committed([cut])
