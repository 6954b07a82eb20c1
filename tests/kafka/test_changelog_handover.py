"""Windows whose owner has not ended its transaction when its partition moves: the next owner's state and position are of one cut."""

from __future__ import annotations

import threading
from dataclasses import replace

from streamactors import Keep
from streamactors.kafka import Consumer, ProducerRecord, Subscriptions, Transactional
from streamactors.kafka.client.producer import StreamProducer
from streamactors.kafka.state.changelogs import changelog_topics
from streamactors.kafka.state.changelogs.changelog_topics import ChangelogTopics
from streamactors.windows import TimeWindows
from tests.kafka._members import with_properties
from tests.kafka._windows import changelog_of, produce, windows_producer, windows_settings  # noqa: F401  # fixtures

FORMER, NEXT = "2", "1"
"""Static members. The range assignor gives the only partition to the one whose name comes first."""


def counts(settings, transactional, member):
    """Each row gives the count of its window so far."""
    static = {"group.instance.id": member, "partition.assignment.strategy": "range"}
    producer = replace(transactional, transactional_id=member, transaction_timeout_ms=60_000)
    if member == FORMER:
        producer = producer.with_property("linger.ms", 50_000)  # its entries are sent when it flushes, no sooner
    return (
        Consumer.records(with_properties(settings, static), Subscriptions.topics("moves"), key="string")
        .group_by_key()
        .windowed_by(TimeWindows.of_size("1h").with_no_grace())
        .count(name="hours")
        .to_stream()
        .map(lambda row: ProducerRecord("moves-out", b"%d" % row.value, row.key))
        .to_mat(Transactional.sink(producer), Keep.both)
    )


def test_a_partition_that_moves_between_the_positions_and_the_commit_takes_its_state_along(
    cluster, settings, transactional, system, read_all, committed, wait_for, monkeypatch
):
    # The positions are in the transaction, the entries of the changelog are still unsent -> the partition moves -> the next owner reads the changelog
    # without the entries, and waits for the positions -> the former owner's commit sends the entries and succeeds. The count began at 1 behind 11 rows.
    settings = replace(settings, revoke_timeout_ms=200)
    cluster.create_topic("moves-out", partitions=1)
    produce(cluster, "moves", [(0, "k", 1_000)], 1)
    moved, held, restored, waits, let_go = (threading.Event() for _ in range(5))
    send_offsets, commit = StreamProducer.send_offsets, StreamProducer.commit
    newest_ends, read = changelog_topics._newest_ends, ChangelogTopics.read

    def send_offsets_first(producer, offsets, *how):
        send_offsets(producer, offsets, *how)
        if producer.settings.transactional_id == FORMER and offsets[("moves", 0)] > 1:
            moved.set()

    def commit_late(producer, timeout_s):
        if moved.is_set() and not held.is_set() and producer.settings.transactional_id == FORMER:
            held.set()
            assert let_go.wait(60)
        commit(producer, timeout_s)

    def ends_of_that_moment(client, keys):
        found = newest_ends(client, keys)
        if held.is_set() and min(end.offset for end in found.values()) > before:
            waits.set()  # the entries are in the changelog, so the restore waits for the end of their transaction
        return found

    def read_to_the_end(changelogs, inputs):
        found = read(changelogs, inputs)
        if held.is_set():
            restored.set()
        return found

    first, first_done = counts(settings, transactional, FORMER).run(system)
    wait_for(lambda: committed("moves") == {0: 1})
    before = len(read_all(changelog_of(settings, "hours-store"))) + 1  # and the marker of the transaction
    monkeypatch.setattr(StreamProducer, "send_offsets", send_offsets_first)
    monkeypatch.setattr(StreamProducer, "commit", commit_late)
    monkeypatch.setattr(changelog_topics, "_newest_ends", ends_of_that_moment)
    monkeypatch.setattr(ChangelogTopics, "read", read_to_the_end)
    produce(cluster, "moves", [(0, "k", 2_000 + i) for i in range(10)], 1)
    assert held.wait(30)
    second, second_done = counts(settings, transactional, NEXT).run(system)
    wait_for(lambda: restored.is_set() or waits.is_set())
    let_go.set()
    produce(cluster, "moves", [(0, "k", 3_000)], 1)
    wait_for(lambda: committed("moves") == {0: 12})
    for control, done in ((first, first_done), (second, second_done)):
        control.shutdown().result(30)
        done.result(30)
    assert [int(each.value()) for each in read_all("moves-out")] == list(range(1, 13))
