"""A state on disk whose changelog has lost what the disk has not met: it is emptied and read again, by a restore and by a standby copy."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors.kafka import ConsumerSettings
from streamactors.kafka.between.changelogs.changelog_topics import ChangelogTopics
from streamactors.kafka.between.changelogs.standby import Standby
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.windows.state.disk.definition import State
from streamactors.windows.state.disk.folder import StateFolder
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


def test_a_standby_copy_lacks_a_key_whose_deletion_is_gone(log, wait_for):
    log.put(a=b"1", b=b"1")
    assert log.restored() == ({"a", "b"}, 2)
    log.put(a=None, b=b"2", c=b"1")
    log.admin.delete_records({log.key: 3})
    standby = log.standby()
    copied(standby, wait_for, ({"b", "c"}, 5))
    standby.close()


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
