"""Windows over Kafka: their state in changelog topics, in one transaction with what they give, restored where they go on."""

from __future__ import annotations

import logging
import random
import threading

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors import ActorSystem, Flow, Keep, Sink
from streamactors.codec import loads
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.producer import PRODUCERS
from streamactors.kafka.errors import ProducerFailed
from streamactors.kafka.settings import ClientSettings
from streamactors.kafka.state.changelogs.changelog_topics import ChangelogTopics
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.kafka.transactions.run_transaction import RunTransaction
from streamactors.windows.state.store_log import META_KEY
from tests.kafka._windows import (  # noqa: F401  # fixtures
    changelog_of,
    counted,
    finals,
    late_to,
    produce,
    read,
    rows,
    windows_producer,
    windows_settings,
    written,
)


def newest(messages):
    """The last value of each key."""
    return {m.key(): m.value() for m in messages}


def test_K_15_the_changelog_keeps_each_open_window_and_the_stream_time(
    cluster, settings, transactional, system, read_all, committed, wait_for
):
    given = [(0, "a", 5_000), (0, "b", 5_500), (1, "a", 9_000)]
    produce(cluster, "k15", given, 2)
    cluster.create_topic("k15-out", partitions=2)
    control, done = written(counted(settings, "k15", until=None), "k15-out", transactional).run(system)
    changelog = changelog_of(settings)
    wait_for(lambda: committed("k15", 2) == {0: 2, 1: 1})
    control.shutdown().result(30)
    done.result(30)
    detail = Admin(ClientSettings(cluster.bootstrap_servers)).describe(changelog)
    assert detail.settings["cleanup.policy"] == "compact,delete"
    assert len(detail.partitions) == 2
    by_partition = {number: {} for number in (0, 1)}
    for message in read_all(changelog, 2):
        by_partition[message.partition()][message.key()] = message.value()
    for number, (time, windows) in enumerate([(5_500, 2), (9_000, 1)]):
        entries = by_partition[number]
        assert loads(entries.pop(META_KEY))[-1]["stream_time"] == time
        assert len(entries) == windows
    assert read_all("k15-out", 2) == [], "a stop closes nothing"


def test_R_5_a_restart_changes_nothing_what_was_late_stays_late(
    cluster, settings, transactional, read_all, committed, wait_for
):
    cluster.create_topic("r5-out", partitions=1)
    given = [(0, "a", 10_000), (0, "a", 10_400), (0, "a", 12_000)]
    produce(cluster, "r5", given, 1)
    for more in ([], [(0, "a", 10_900), (0, "a", 12_100)]):
        produce(cluster, "r5", more, 1)
        given += more
        with ActorSystem("r5") as system:
            control, done = written(counted(settings, "r5", until=None), "r5-out", transactional).run(system)
            wait_for(lambda: committed("r5") == {0: len(given)})  # noqa: B023
            control.shutdown().result(30)
            done.result(30)
    assert read(read_all("r5-out")) == [(0, "a@10000", 2)], (
        "the second run's row at 10 900 is late, as without a restart"
    )


@pytest.mark.parametrize(
    "seed", [1, 2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]
)
def test_a_run_that_fails_again_and_again_gives_the_rows_of_one_that_did_not(
    cluster, settings, transactional, read_all, seed
):
    """Results, late rows, changelog and positions are of one cut, whatever was cut off."""
    partitions, given = 3, list(rows(seed, 3_000, 3))
    topic, out, late = f"fails-{seed}", f"fails-{seed}-out", f"fails-{seed}-late"
    produce(cluster, topic, given, partitions)
    cluster.create_topic(out, partitions=partitions)
    cluster.create_topic(late, partitions=partitions)
    dice = random.Random(seed)

    def check(row):
        if row.start > poison:
            raise ValueError("poison")
        return row

    failures = 0
    while True:
        poison = 1_000_000 + dice.randrange(6_000 * (failures + 1)) if failures < 4 else 1 << 60
        with ActorSystem("fails") as system:
            source = counted(settings, topic, late=late_to(late, transactional)).map(check)
            control, done = written(source, out, transactional).run(system)
            error = done.exception(60)
            control.is_shutdown.exception(60)
        if error is None:
            break
        assert "poison" in str(error)
        failures += 1
    assert failures >= 2
    counts, late_rows = finals(given, partitions)
    assert read(read_all(out, partitions)) == counts
    assert read(read_all(late, partitions)) == late_rows
    assert len(late_rows) > 20


def test_K_14_K_16_a_cut_waits_for_a_plain_sink_behind_the_windows(
    cluster, settings, transactional, system, committed, read_all, wait_for
):
    given = list(rows(5, 600, 1))
    produce(cluster, "k14", given, 1)
    cluster.create_topic("k14-out", partitions=1)
    go, stored = threading.Event(), []

    def store(row):
        go.wait(60)
        stored.append((0, f"{row.key}@{row.start}", row.value))

    slow = Flow.identity().async_boundary().to(Sink.foreach(store))
    source = counted(settings, "k14").also_to(slow)
    control, done = written(source, "k14-out", transactional).run(system)
    wait_for(lambda: len(read_all("k14-out", isolation="read_uncommitted")) > 0)
    assert committed("k14")[0] <= first_close(given), "the sink holds the row that this record brought about"
    assert read_all("k14-out") == []
    go.set()
    done.result(60)
    control.is_shutdown.result(30)
    assert committed("k14") == {0: 600}
    assert sorted(stored) == read(read_all("k14-out")) == finals(given, 1)[0]


def first_close(given):
    """Return the index of the first record that closes a window."""
    opened, time = set(), 0
    for i, (_, _, timestamp) in enumerate(given):
        time = max(time, timestamp)
        start = timestamp // 1_000 * 1_000
        if start + 1_500 > time:
            opened.add(start)
        if any(each + 1_500 <= time for each in opened):
            return i
    raise AssertionError("no window is closed")


def test_K_17_without_a_transactional_sink_the_changelog_is_written_before_positions_are_committed(
    cluster, settings, system, committed, read_all
):
    given = list(rows(6, 2_000, 2))
    produce(cluster, "k17", given, 2)
    found = []
    for _ in range(2):  # the second run finds nothing to do, and repeats nothing
        control, done = counted(settings, "k17").to_mat(Sink.foreach(found.append), Keep.both).run(system)
        done.result(60)
        control.is_shutdown.result(30)
    assert sorted((r.context.partition, f"{r.key}@{r.start}", r.value) for r in found) == finals(given, 2)[0]
    assert committed("k17", 2) == {0: 1_000, 1: 1_000}
    assert newest(read_all(changelog_of(settings), 2))[META_KEY] is not None


def test_K_17_a_run_ended_abruptly_repeats_rows_and_loses_none(cluster, settings, wait_for):
    given = list(rows(7, 3_000, 2))
    produce(cluster, "k17b", given, 2)
    seen = {}

    def note(row):
        seen[row.context.partition, f"{row.key}@{row.start}"] = row.value

    for round_ in range(4):
        with ActorSystem("k17b") as system:
            _, done = counted(settings, "k17b").to_mat(Sink.foreach(note), Keep.both).run(system)
            if round_ < 3:
                before = len(seen)
                wait_for(lambda before=before, done=done: len(seen) > before + 20 or done.done())
            else:
                done.result(60)
    expected = {(partition, key): count for partition, key, count in finals(given, 2)[0]}
    assert seen.keys() >= expected.keys()
    assert all(seen[key] >= count for key, count in expected.items()), "rows may be counted twice, never not at all"


def test_K_17_no_changelog_is_a_warning_and_makes_no_topic(cluster, settings, system, caplog):
    produce(cluster, "none", [(0, "a", 5_000)], 1)
    with caplog.at_level(logging.WARNING, logger="streamactors.windows"):
        done = counted(settings, "none", changelog=False).run_with(Sink.to_list(), system)
        assert len(done.result(30)) == 1
    assert any("a restart or a rebalance loses open windows" in each.getMessage() for each in caplog.records)
    assert changelog_of(settings) not in {t.name for t in Admin(ClientSettings(cluster.bootstrap_servers)).topics()}


def test_K_18_the_former_owner_is_fenced_before_its_state_is_read(
    cluster, settings, transactional, system, read_all, wait_for
):
    """Two runs with one transactional id: the second takes over, the first fails, each final row comes once."""
    given = list(rows(8, 1_500, 2))
    produce(cluster, "k18", given[:1_000], 2)
    cluster.create_topic("k18-out", partitions=2)
    _, first = written(counted(settings, "k18", until=None), "k18-out", transactional).run(system)
    wait_for(lambda: len(read_all("k18-out", 2)) > 10)
    control, second = written(counted(settings, "k18", until=None), "k18-out", transactional).run(system)

    def connected():
        return [each for each in PRODUCERS if each.settings == transactional and each.start().done()]

    wait_for(
        lambda: len(connected()) == 2
    )  # before, the first may commit all there is; then it has nothing to be refused
    produce(cluster, "k18", given[1_000:], 2)
    assert isinstance(first.exception(60), ProducerFailed)
    counts = finals(given, 2)[0]
    expected = [row for row in counts if int(row[1].split("@")[1]) + 1_500 <= 1_000_000 + 1_400 * 10]
    wait_for(lambda: len(read_all("k18-out", 2)) >= len(expected), 60)
    control.shutdown().result(30)
    second.exception(30)
    found = read(read_all("k18-out", 2))
    assert set(found) <= set(counts)
    assert len(found) == len(set(found))
    assert set(expected) <= set(found)


def test_K_19_partitions_that_move_between_two_members_take_their_state_along(
    cluster, settings, transactional, read_all, wait_for
):
    partitions, given = 4, list(rows(9, 4_000, 4))
    produce(cluster, "k19", given[:1_500], partitions)
    cluster.create_topic("k19-out", partitions=partitions)

    def start(system, number):
        producer = transactional.with_transactional_id(f"k19-{number}")
        return written(counted(settings, "k19", until=None), "k19-out", producer).run(system)

    with ActorSystem("one") as one, ActorSystem("two") as two:
        first, first_done = start(one, 1)
        wait_for(lambda: len(read_all("k19-out", partitions)) > 20)
        second, second_done = start(two, 2)
        produce(cluster, "k19", given[1_500:2_500], partitions)
        wait_for(lambda: len(second.snapshot().get("partitions", ())) == 2, 60)
        produce(cluster, "k19", given[2_500:3_500], partitions)
        first.shutdown().result(60)
        first_done.result(60)
        wait_for(lambda: len(second.snapshot().get("partitions", ())) == 4, 60)
        produce(cluster, "k19", given[3_500:], partitions)
        counts = finals(given, partitions)[0]
        ends = [max(t for p, _, t in given if p == number) for number in range(partitions)]
        expected = {row for row in counts if int(row[1].split("@")[1]) + 1_500 <= ends[row[0]]}
        wait_for(lambda: len(read_all("k19-out", partitions)) >= len(expected), 60)
        second.shutdown().result(60)
        second_done.result(60)
    assert read(read_all("k19-out", partitions)) == sorted(expected)


def test_silence_of_a_partition_closes_its_windows(cluster, settings, transactional, system, read_all, wait_for):
    produce(cluster, "silent", [(0, "a", 5_000), (0, "a", 5_100)], 1)
    cluster.create_topic("silent-out", partitions=1)
    source = counted(settings, "silent", until=None, idle_after="1s")
    control, done = written(source, "silent-out", transactional).run(system)
    wait_for(lambda: len(read_all("silent-out")) == 1)
    control.shutdown().result(30)
    done.result(30)
    assert read(read_all("silent-out")) == [(0, "a@5000", 2)]


def test_reading_a_changelog_gives_the_newest_of_each_key_up_to_the_end_of_that_moment(cluster, settings):
    cluster.create_topic("log", partitions=1)
    cluster.create_topic("input", partitions=1)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "log"})
    producer.init_transactions(10)
    for commit, entries in (
        (True, [(b"a", b"1"), (b"b", b"1")]),
        (False, [(b"a", b"lost")]),
        (True, [(b"b", None), (b"c", b"3")]),
    ):
        producer.begin_transaction()
        for key, value in entries:
            producer.produce("log", value, key)
        if commit:
            producer.commit_transaction(10)
        else:
            producer.flush(10)
            producer.abort_transaction(10)
    count, found = ChangelogTopics(settings, {"s": "log"}).read([TopicPartition("input", 0)])
    assert count == 1
    assert [tuple(change) for change in found[0]] == [("s", b"a", b"1"), ("s", b"c", b"3")]


def test_K_18_an_open_transaction_in_a_changelog_is_waited_for(cluster, settings):
    """The end to read to is the high watermark: up to the last stable offset the state would be that of an earlier cut."""
    cluster.create_topic("open-log", partitions=1)
    cluster.create_topic("open-input", partitions=1)
    producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "open-log"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("open-log", b"1", b"a")
    producer.flush(10)
    result = []

    def restore():
        result.append(ChangelogTopics(settings, {"s": "open-log"}).read([TopicPartition("open-input", 0)]))

    reader = threading.Thread(target=restore)
    reader.start()
    reader.join(1)
    assert reader.is_alive(), "the former owner may still commit"
    producer.commit_transaction(10)
    reader.join(60)
    assert [tuple(change) for change in result[0][1][0]] == [("s", b"a", b"1")]


def test_a_failure_downstream_of_windows_is_the_reason_for_which_the_transaction_is_aborted(
    cluster, settings, transactional, system, monkeypatch
):
    """The sink may be in a cut, and hear of the failure before it later than of the abort: then the abort must tell the same."""
    reasons = []
    leave = RunTransaction.leave
    monkeypatch.setattr(
        RunTransaction,
        "leave",
        lambda self, part, error, **how: (reasons.append(error), leave(self, part, error, **how)),
    )
    produce(cluster, "reason", list(rows(1, 600, 1)), 1)
    cluster.create_topic("reason-out")

    def check(_):
        raise ValueError("poison")

    control, done = written(counted(settings, "reason").map(check), "reason-out", transactional).run(system)
    assert "poison" in str(done.exception(60))
    control.is_shutdown.exception(60)
    assert [type(error) for error in reasons] == [type(done.exception(0))] * 2, "the sink's and the windows'"


@pytest.mark.expects_log("keep no changelog (changelog=False)")
def test_a_rebalance_that_loses_open_windows_says_so(cluster, settings, system, caplog, committed, wait_for):
    """A second instance joins with an eager assignor: the first gives up its partition and its windows, which are kept nowhere."""
    produce(cluster, "taken", [(0, "a", 5_000)], 1)

    def said():
        return [each.getMessage() for each in caplog.records if "its open windows are lost" in each.getMessage()]

    def start(where):
        return counted(settings, "taken", until=None, changelog=False).to_mat(Sink.ignore(), Keep.left).run(where)

    with caplog.at_level(logging.WARNING, logger="streamactors.windows"), ActorSystem("second") as second:
        start(system)
        wait_for(lambda: committed("taken") == {0: 1})
        assert not said()
        start(second)
        wait_for(said, 60)
        assert said()[0].startswith("windows: taken-0 was revoked"), said()
