"""State on disk behind a Kafka source: a restart reads from the changelog only what the disk lacks, and gives the same results."""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter

import pytest

from streamactors import ActorSystem, Keep, Sink
from streamactors.kafka import Consumer, Subscriptions
from streamactors.kafka.state.changelogs.changelog import ChangelogAtLeastOnce
from streamactors.state import State
from streamactors.windows import BufferConfig, Suppressed
from streamactors.windows.errors import RestoreError
from streamactors.windows.stage import stage_state
from streamactors.windows.state.disk import folder as folder_module
from streamactors.windows.state.disk.errors import StateFolderInUse
from streamactors.windows.state.disk.folder import StateFolder
from tests.kafka._windows import (  # noqa: F401  # fixtures
    changelog_of,
    counted,
    finals,
    produce,
    read,
    rows,
    windows_producer,
    windows_settings,
    written,
)

RESTORED = re.compile(r"restored (\d+) entries")


def entries_read(caplog):
    """Number of changelog entries read since the last call."""
    found = [int(match[1]) for each in caplog.records if (match := RESTORED.search(each.getMessage()))]
    caplog.clear()
    return sum(found)


def on_disk(settings, path, **options):
    return settings.with_state(State.on_disk(path, cache="16MB", **options))


def sums(settings, topic, until="end"):
    """A table of the number of rows of each key."""
    source = Consumer.records(settings, Subscriptions.topics(topic), key="string", until=until)
    return source.group_by_key().count(name="sums").to_stream()


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_restart_reads_what_was_written_after_the_last_batch_only(
    cluster, settings, transactional, read_all, tmp_path, caplog, exactly_once
):
    caplog.set_level(logging.INFO, logger="streamactors.kafka")
    topic, given, seen = f"disk-{exactly_once}", [], []
    cluster.create_topic(f"{topic}-out", partitions=2)
    for seed in (1, 2, 3):
        more = [(n, key, time + seed * 10_000) for n, key, time in rows(seed, 1_000, 2, keys=300)]
        produce(cluster, topic, more, 2)
        given += more
        with ActorSystem("disk") as system:
            source = counted(on_disk(settings, tmp_path), topic)
            if exactly_once:
                control, done = written(source, f"{topic}-out", transactional).run(system)
            else:
                control, done = source.to_mat(Sink.foreach(seen.append), Keep.both).run(system)
            done.result(60)
            control.is_shutdown.result(30)
        assert entries_read(caplog) <= 4, "what a clean stop leaves unread is at most the metadata"
    found = read(read_all(f"{topic}-out", 2))
    if not exactly_once:
        found = sorted((row.context.partition, f"{row.key}@{row.start}", row.value) for row in seen)
    assert len(found) > 500


def test_a_shutdown_is_done_only_when_the_state_is_written(
    cluster, settings, wait_for, committed, monkeypatch, tmp_path, caplog
):
    """The sinks have ended and every position is committed -> the entries of the end of the input, which move no position, are written ->
    the user has shut the system down before."""
    caplog.set_level(logging.INFO, logger="streamactors.kafka")
    write = ChangelogAtLeastOnce.write

    def late(self, changes, at, ended):
        if ended:
            threading.Timer(0.5, write, [self, changes, at, ended]).start()
        else:
            write(self, changes, at, ended)

    monkeypatch.setattr(ChangelogAtLeastOnce, "write", late)
    monkeypatch.setattr(stage_state, "END_FIRST_MS", 1.0)
    total, found = Counter(), []
    for seed in (1, 2):
        more = [(n, key, at + seed * 10_000) for n, key, at in rows(seed, 300, 2, keys=100)]
        produce(cluster, "closed", more, 2)
        total.update(n for n, _, _ in more)
        with ActorSystem("disk") as system:
            source = counted(on_disk(settings, tmp_path), "closed", until=None)
            control, done = source.to_mat(Sink.foreach(found.append), Keep.both).run(system)
            wait_for(lambda: committed("closed", 2) == total)
            control.stop_at_end()
            done.result(60)
            control.is_shutdown.result(30)
        assert entries_read(caplog) <= 4
    windows = Counter((row.context.partition, row.key, row.start) for row in found)
    assert set(windows.values()) == {1}, "the second run closes no window of the first"


def test_a_changelog_written_by_state_in_memory_restores_on_disk_and_back(cluster, settings, system, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="streamactors.kafka")
    counts, expected, read_again = {}, {}, []
    for round_, place in enumerate([settings, on_disk(settings, tmp_path), settings, on_disk(settings, tmp_path)]):
        given = list(rows(round_, 500, 2, keys=50))
        produce(cluster, "places", given, 2)
        for partition, key, _ in given:
            expected[partition, key] = expected.get((partition, key), 0) + 1

        def note(row):
            counts[row.context.partition, row.key] = row.value

        control, done = sums(place, "places").to_mat(Sink.foreach(note), Keep.both).run(system)
        done.result(60)
        control.is_shutdown.result(30)
        read_again.append(entries_read(caplog))
        assert counts == expected
    assert read_again[0] == 0
    assert read_again[1] >= 100, "the disk had nothing yet"
    assert read_again[3] >= 100, "the run in memory had written entries that the disk lacks"


def test_a_disk_ahead_of_a_changelog_that_was_made_again_is_emptied(cluster, settings, system, tmp_path, caplog):
    def count(topic):
        given = list(rows(1, 300, 1, keys=10))
        produce(cluster, topic, given, 1)
        found = {}
        done = sums(on_disk(settings, tmp_path), topic).run_with(
            Sink.foreach(lambda r: found.update({r.key: r.value})), system
        )
        done.result(60)
        return found

    first = count("made-1")
    StateFolder(State.on_disk(tmp_path), settings.group_id).close()  # the run has closed its files
    cluster.delete_topic(changelog_of(settings, "sums-store"))
    assert count("made-2") == first, "the rows of the second topic are counted from nothing"
    assert any("the topic was created again; the state is restored" in each.getMessage() for each in caplog.records)


def test_a_folder_that_another_run_uses_fails_the_run_with_the_way_out(
    cluster, settings, system, tmp_path, wait_for, monkeypatch
):
    produce(cluster, "two-runs", [(0, "a", 5_000)], 1)
    control, done = sums(on_disk(settings, tmp_path), "two-runs", None).to_mat(Sink.ignore(), Keep.both).run(system)
    wait_for(lambda: (tmp_path / settings.group_id / "lock").exists())
    monkeypatch.setattr(folder_module, "LOCK_WAIT_S", 0.0)
    second = sums(on_disk(settings, tmp_path), "two-runs", None).run_with(Sink.ignore(), system)
    with pytest.raises(StateFolderInUse, match="give each instance a folder of its own"):
        second.result(30)
    control.shutdown().result(30)
    done.result(30)
    monkeypatch.undo()  # a run that ends may still be closing its files when the next one begins
    control, done = sums(on_disk(settings, tmp_path), "two-runs").to_mat(Sink.ignore(), Keep.both).run(system)
    done.result(30)  # the folder is free again


@pytest.mark.expects_log("does not belong to any step of this run")
def test_a_store_whose_generated_number_changed_is_refused_and_both_names_are_told(cluster, settings, system):
    produce(cluster, "renumbered", [(0, "a", 5_000)], 1)
    source = Consumer.records(settings, Subscriptions.topics("renumbered"), key="string", until="end")
    table = source.to_table()
    limit = Suppressed.until_time_limit(10, BufferConfig.unbounded())
    table.suppress(limit).to_stream().run_with(Sink.ignore(), system).result(30)
    table.suppress(limit).to_stream().run_with(Sink.ignore(), system).result(30)
    with pytest.raises(RestoreError, match=r"suppress-store-0000000003-changelog.*suppress-store-0000000004-changelog"):
        table.filter(bool).suppress(limit).to_stream().run_with(Sink.ignore(), system).result(30)
    named = table.filter(bool).suppress(limit.with_name("held")).to_stream()
    named.run_with(Sink.ignore(), system).result(30)
