"""Standby copies: the instance that takes a task over has its state already."""

from __future__ import annotations

import logging
import re

import pytest

from streamactors import ActorSystem, Keep, Sink
from streamactors.kafka import MetadataClient
from streamactors.windows.state.disk.definition import State
from tests.kafka._windows import produce, windows_settings  # noqa: F401  # fixtures
from tests.kafka.test_state_on_disk import entries_read, sums

KEYS = 400


@pytest.mark.parametrize("standbys", [0, 1])
def test_a_task_is_taken_over_warm_where_a_standby_is(
    cluster, settings, wait_for, tmp_path, caplog, standbys, committed
):
    caplog.set_level(logging.DEBUG, logger="streamactors.kafka")
    topic = f"standby-{standbys}"
    produce(cluster, topic, [(n % 2, f"k{n}", 1_000 + n) for n in range(KEYS)], 2)
    running, counts = [], {}

    def note(row):
        counts[row.key] = row.value

    for n in range(2):
        place = State.on_disk(tmp_path / str(n), cache="16MB", standbys=standbys)
        system = ActorSystem(f"instance-{n}")
        control, done = sums(settings.with_state(place), topic, None).to_mat(Sink.foreach(note), Keep.both).run(system)
        running.append((system, control, done))
    wait_for(lambda: all(len(control.snapshot()["partitions"]) == 1 for _, control, _ in running))
    produce(cluster, topic, [(n % 2, f"k{n}", 5_000 + n) for n in range(KEYS)], 2)
    wait_for(lambda: committed(topic, 2) == {0: KEYS, 1: KEYS})

    def copied():
        """How far the copies of each changelog partition have come."""
        told = (each.getMessage() for each in caplog.records if "standby copies took" in each.getMessage())
        found = [each for line in told for each in re.findall(r"(\S+)-([01])@(\d+)", line)]
        return {(topic, int(number)): int(end) for topic, number, end in found}

    if standbys:  # each half in the other instance, to the end of its changelog
        with MetadataClient(settings) as metadata:
            wait_for(lambda: len(copied()) == 2 and metadata.end_offsets(copied()) == copied())
    entries_read(caplog)
    system, control, done = running.pop(0)
    control.shutdown().result(30)
    done.result(30)
    system.shutdown()
    _, control, _ = running[0]
    wait_for(lambda: len(control.snapshot()["partitions"]) == 2)
    produce(cluster, topic, [(n % 2, f"k{n}", 9_000 + n) for n in range(KEYS)], 2)
    wait_for(lambda: counts == {f"k{n}": 3 for n in range(KEYS)})
    read = entries_read(caplog)
    assert (read < 20) if standbys else (read >= KEYS // 2), "a cold instance reads the whole changelog"
    for system, control, done in running:
        control.shutdown().result(30)
        done.result(30)
        system.shutdown()
