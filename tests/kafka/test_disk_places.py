"""A state on disk whose changelog has lost what the disk has not met: it is emptied and read again, by a restore and by a standby copy."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors.kafka import ConsumerSettings
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.connection import BEGINNING
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.client.offsets.newest_ends import PartitionEnd
from streamactors.kafka.errors import KafkaError, NoBroker, OffsetsGone, StaleAnswer
from streamactors.kafka.state.changelogs import changelog_topics, disk_places
from streamactors.kafka.state.changelogs.changelog_topics import ChangelogTopics
from streamactors.kafka.state.changelogs.standby import Standby
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.state import State
from streamactors.windows.state.disk.folder import StateFolder
from streamactors.windows.state.disk.task_disk import Origin
from tests.bare_clients import IN_ORDER


class Log:
    """A changelog of one store, and the disk of its only task."""

    def __init__(self, cluster, topic, path):
        self.topic = topic
        self.key = TopicPartition(topic, 0)
        self.cluster = cluster
        self.settings = ConsumerSettings(cluster.bootstrap_servers, "app", "earliest")
        self.admin = Admin(self.settings)
        self.reader = ChangelogTopics(self.settings, {"s": topic})
        self.folder = StateFolder(State.on_disk(path), "app")
        self.make()

    def make(self):
        self.admin.create(self.topic, 1, settings={"cleanup.policy": "compact,delete"})

    def put(self, **entries):
        producer = BareProducer({"bootstrap.servers": self.cluster.bootstrap_servers, **IN_ORDER})
        for key, value in entries.items():
            producer.produce(self.topic, value, b"\x01" + key.encode(), 0)
        assert producer.flush(30) == 0

    def standby(self):
        return Standby(self.reader.settings, {"s": self.topic}, self.folder, ())

    def restored(self):
        """The keys on disk and the offset, after a restore."""
        disk = self.folder.open(("s",), 0)
        self.reader.follow([self.key], {0: disk})
        found = said(disk)
        self.folder.close_task(("s",), 0)
        return found


def said(disk):
    return {key[1:].decode() for key, _ in disk.scan("s")}, disk.offset("s")


@pytest.fixture
def log(cluster, request, tmp_path):
    log = Log(cluster, request.node.name.replace("[", "-").replace("]", ""), tmp_path)
    yield log
    log.folder.close()


def copied(standby, wait_for, expected):
    """Step until the copy is as expected."""

    def is_there():
        try:
            standby.step(())
        except KafkaError:
            return False  # told, and tried again
        return 0 in standby.disks and said(standby.disks[0][0]) == expected

    wait_for(is_there)


@pytest.mark.expects_log("the records between were deleted")
def test_a_key_whose_deletion_is_gone_does_not_come_back(log):
    # The disk went on behind what was deleted, on top of its old entries: a was in the state again.
    log.put(a=b"1", b=b"1")
    assert log.restored() == ({"a", "b"}, 2)
    log.put(a=None, b=b"2", c=b"1")
    log.admin.delete_records({log.key: 3})
    assert log.restored() == ({"b", "c"}, 5)


def test_a_disk_that_lacks_the_last_marker_only_is_kept(log):
    log.put(a=b"1", b=b"1")
    assert log.restored() == ({"a", "b"}, 2)
    log.put(marker=b"")  # stands for the marker of the last transaction
    log.admin.delete_records({log.key: 3})
    assert log.restored() == ({"a", "b"}, 2)


@pytest.mark.expects_log("the records between were deleted")
def test_a_standby_copy_lacks_a_key_whose_deletion_is_gone(log, wait_for):
    log.put(a=b"1", b=b"1")
    assert log.restored() == ({"a", "b"}, 2)
    log.put(a=None, b=b"2", c=b"1")
    log.admin.delete_records({log.key: 3})
    standby = log.standby()
    copied(standby, wait_for, ({"b", "c"}, 5))
    standby.close()


@pytest.mark.expects_log("the topic was created again")
def test_a_standby_copy_of_a_changelog_that_was_made_again_has_no_old_entries(log, wait_for):
    # It read the new changelog over its old entries. The restore behind it trusted the offset, and the old entries stayed.
    log.put(old1=b"1", old2=b"1", old3=b"1")
    standby = log.standby()
    copied(standby, wait_for, ({"old1", "old2", "old3"}, 3))
    standby.close()
    log.admin.delete(log.topic)
    wait_for(lambda: log.topic not in {each.name for each in log.admin.topics()})
    log.make()
    log.put(new=b"1")
    standby = log.standby()
    copied(standby, wait_for, ({"new"}, 1))
    standby.close()
    assert log.restored() == ({"new"}, 1)


@pytest.mark.expects_log("the topic was created again")
def test_a_standby_copy_that_follows_a_changelog_while_it_is_made_again_begins_anew(log, wait_for):
    log.put(old1=b"1", old2=b"1", old3=b"1")
    standby = log.standby()
    copied(standby, wait_for, ({"old1", "old2", "old3"}, 3))
    log.admin.delete(log.topic)
    wait_for(lambda: log.topic not in {each.name for each in log.admin.topics()})
    log.make()
    log.put(new=b"1")
    copied(standby, wait_for, ({"new"}, 1))
    assert 0 <= standby.lag(0) <= 1
    standby.close()


# --- a broker that is cut off names an old end ---

KEY = TopicPartition("log", 0)


class Disk:
    """Stands for the disk of a task with one store, at offset 150 of topic `one`, whose newest known epoch is 4."""

    def __init__(self, offset=150, origin=Origin("one", 4)):
        self.at = offset
        self.from_ = origin

    def offset(self, _store):
        return self.at

    def origin(self, _store):
        return self.from_

    def set_origin(self, _store, origin):
        self.from_ = origin

    def clear(self, _store):
        self.at, self.from_ = 0, None


def placed(end, disk, monkeypatch):
    monkeypatch.setattr(disk_places, "Admin", lambda _: SimpleNamespace(offsets=lambda asked: dict.fromkeys(asked, 0)))
    return disk_places.places_of(ConsumerSettings("b:1", "g", "earliest"), {0: disk}, {"log": "s"}, {KEY: end})[KEY]


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (
            PartitionEnd(100, 4, "one", False),
            "ends at 100, and the state on disk is at 150; a broker .* has not answered",
        ),
        (PartitionEnd(100, 3, "one", True), "epoch 3 names the end 100, and the state on disk knows epoch 4"),
        (PartitionEnd(150, 3, "one", True), "epoch 3 names the end 150"),
        (
            PartitionEnd(1, 0, "two", False),
            "topic id two, and the state on disk is of one; a broker .* has not answered",
        ),
        (PartitionEnd(100, -1, None, False), "ends at 100, and the state on disk is at 150"),
    ],
)
def test_a_stale_answer_costs_no_state(end, why, monkeypatch):
    # A leader that was cut off named 100 as the end -> the topic counted as made again, and good state was thrown away.
    disk = Disk()
    with pytest.raises(StaleAnswer, match=why):
        placed(end, disk, monkeypatch)
    assert (disk.at, disk.from_) == (150, Origin("one", 4))


def test_one_stale_answer_clears_no_other_store(monkeypatch):
    other = TopicPartition("log", 1)
    disks = {0: Disk(), 1: Disk()}
    monkeypatch.setattr(disk_places, "Admin", lambda _: SimpleNamespace(offsets=lambda asked: dict.fromkeys(asked, 0)))
    ends = {KEY: PartitionEnd(1, 0, "two", True), other: PartitionEnd(100, 4, "one", False)}
    with pytest.raises(StaleAnswer):
        disk_places.places_of(ConsumerSettings("b:1", "g", "earliest"), disks, {"log": "s"}, ends)
    assert [disk.at for disk in disks.values()] == [150, 150]


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (
            PartitionEnd(200, 0, "two", True),
            "topic id two, and the state on disk is of one: the topic was created again",
        ),
        (PartitionEnd(100, 5, "one", True), "it has lost records, as in an unclean election"),
    ],
)
def test_a_changelog_that_surely_lacks_the_state_has_it_made_again(end, why, monkeypatch, caplog):
    # Offsets alone did not tell a longer topic of the same name from the one that the state is of.
    disk = Disk()
    assert placed(end, disk, monkeypatch) == BEGINNING
    assert (disk.at, disk.from_) == (0, Origin(end.topic_id, end.leader_epoch))
    assert why in caplog.text


def test_a_state_that_can_be_continued_remembers_the_newest_epoch(monkeypatch):
    disk = Disk()
    assert placed(PartitionEnd(180, 6, "one", False), disk, monkeypatch) == 150
    assert disk.from_ == Origin("one", 6)


def test_the_disk_keeps_where_its_entries_are_from(log):
    log.put(a=b"1")
    log.restored()
    disk = log.folder.open(("s",), 0)
    first = disk.origin("s")
    assert first is not None
    assert first.topic_id == log.admin.topic_ids([log.topic])[log.topic]
    disk.clear("s")
    assert disk.origin("s") is None


@pytest.mark.expects_log("the topic was created again")
def test_a_longer_changelog_of_the_same_name_has_its_own_state(log, wait_for):
    # The old entries stayed: the new topic was longer than the state on disk.
    log.put(old=b"1")
    assert log.restored() == ({"old"}, 1)
    log.admin.delete(log.topic)
    wait_for(lambda: log.topic not in {each.name for each in log.admin.topics()})
    log.make()
    log.put(new1=b"1", new2=b"1", new3=b"1")
    assert log.restored() == ({"new1", "new2", "new3"}, 3)


@pytest.mark.parametrize("kind", [StaleAnswer, OffsetsGone, NoBroker])
def test_a_restore_is_tried_again_as_a_standby_copy_is(kind, log, monkeypatch, caplog):
    # The active restore ended with "Offset out of range", and the topology with exit code 1.
    monkeypatch.setattr(changelog_topics, "RETRY_S", 0.0)
    log.put(a=b"1")
    genuine, failures = log.reader._follow_all, [kind("away"), kind("away")]

    def follow(*arguments):
        if failures:
            raise failures.pop()
        return genuine(*arguments)

    monkeypatch.setattr(log.reader, "_follow_all", follow)
    assert log.restored() == ({"a"}, 1)
    assert not failures
    assert "this is tried again" in caplog.text


def test_a_restore_that_never_succeeds_fails_with_its_reason(log, monkeypatch):
    monkeypatch.setattr(changelog_topics, "RETRIED_S", 0.0)

    def follow(*_):
        raise StaleAnswer("old")

    monkeypatch.setattr(log.reader, "_follow_all", follow)
    with pytest.raises(StaleAnswer):
        log.restored()


def test_a_read_beyond_the_end_is_told_as_such(log):
    log.put(a=b"1")
    client = StreamConsumer(log.reader.settings.with_auto_offset_reset("error"))
    client.assign({log.key: 50})
    with pytest.raises(OffsetsGone, match="auto_offset_reset is 'error'"):
        for _ in range(100):
            client.poll(10, 0.2)
    client.close()
