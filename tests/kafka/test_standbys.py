"""Standby copies: the instance that takes a task over has its state already."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from streamactors import ActorSystem, Keep, Sink
from streamactors.broker.cluster.reserved_ports import free_port
from streamactors.cli.main import LazyGroup
from streamactors.errors import UnknownStore
from streamactors.kafka.client.offsets.newest_ends import PartitionEnd
from streamactors.kafka.client.runs import NOTHING
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.state.changelogs.standby import Standby
from streamactors.kafka.state.queries.query_peers import ask, ask_with_lag
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.state import State
from streamactors.windows.state.disk.folder import StateFolder
from streamactors.windows.state.reads import StoreRequest
from tests.kafka._windows import changelog_of, produce, windows_settings  # noqa: F401  # fixtures
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

    def copied(control):
        """Whether an instance has the newest entry of every key: those of its own task, and those of its copy."""
        try:
            found = control.store("sums").items(stale=True).result(20)
        except UnknownStore:  # still restoring
            return False
        return {each.key: each.value for each in found} == {f"k{n}": 2 for n in range(KEYS)}

    if standbys:  # each half in the other instance; where that had the task before, it may have nothing to copy
        for _, control, _ in running:
            wait_for(lambda control=control: copied(control))
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


def test_copies_answer_readers_that_allow_it(cluster, settings, wait_for, tmp_path):
    produce(cluster, "copies", [(n % 2, f"k{n}", 1_000 + n) for n in range(8)], 2)
    running, addresses = [], []
    for n in range(2):
        addresses.append(f"127.0.0.1:{free_port()}")
        place = State.on_disk(tmp_path / str(n), cache="16MB", standbys=1, advertise=addresses[n], token="t")
        system = ActorSystem(f"copier-{n}")
        control, done = sums(settings.with_state(place), "copies", None).to_mat(Sink.ignore(), Keep.both).run(system)
        running.append((system, control, done))
    wait_for(lambda: all(len(control.snapshot()["partitions"]) == 1 for _, control, _ in running))
    everything = {f"k{n}": 1 for n in range(8)}

    def copied(control):
        try:
            entries = control.store("sums").items(stale=True).result(20)
        except UnknownStore:  # still restoring
            return False
        return {each.key: each.value for each in entries} == everything

    for _, control, _ in running:
        wait_for(lambda control=control: copied(control))
        store = control.store("sums")
        assert [store.get(key, stale=True).result(20) for key in ("k0", "k1", "none")] == [1, 1, None]
    found = ask(addresses[0], "t", "sums", StoreRequest("range"), dirty=False, local=False, stale=True)
    assert {each.key: each.value for each in found} == everything
    for n, (_, control, _) in enumerate(running):
        (partition,) = control.snapshot()["partitions"]
        other = 1 - int(str(partition)[-1])
        wait_for(lambda control=control, other=other: control.store("sums").copies().result(20) == {other: 0})
        asked = ask_with_lag(addresses[n], "t", "sums", StoreRequest("range"), dirty=False, local=False, stale=True)
        assert asked[1] == 0
    fresh = ask_with_lag(addresses[0], "t", "sums", StoreRequest("range"), dirty=False, local=False, stale=False)
    assert fresh[1] is None
    command = ["query", "sums", "k1", "--at", addresses[0], "--token", "t", "--stale", "--json"]
    assert json.loads(CliRunner().invoke(LazyGroup("streamactors"), command).output)["value"] == 1
    produce(
        cluster, "copies", [(n % 2, f"k{n}", 9_000 + n) for n in range(8)], 2
    )  # the copies go on after they were read
    everything.update({f"k{n}": 2 for n in range(8)})
    for _, control, _ in running:
        wait_for(lambda control=control: copied(control))
    for system, control, done in running:
        control.shutdown().result(30)
        done.result(30)
        system.shutdown()


def test_the_lag_of_a_copy_is_that_of_its_slowest_store_and_a_marker_at_the_end_is_none(settings):
    standby = Standby(settings, {"one": "log-one", "two": "log-two"}, None, ())
    ends = {TopicPartition("log-one", 3): 10, TopicPartition("log-two", 3): 20}
    offsets = {"one": 4, "two": 19}
    standby._disks = {3: SimpleNamespace(offset=offsets.get)}
    standby._client = SimpleNamespace(known_ends=lambda keys: {key: ends[key] for key in keys})
    assert standby.lag(3) == 6
    offsets["one"] = 10
    assert standby.lag(3) == 1
    standby._ended[TopicPartition("log-two", 3)] = 20
    assert standby.lag(3) == 0


class Changelogs:
    """A client that reads changelogs. The first question for their ends fails."""

    def __init__(self) -> None:
        self.reads: list[TopicPartition] = []
        self.refuses = True

    def topics(self):
        return {"log-one": 2}

    def newest_ends(self, keys):
        if keys and self.refuses:
            self.refuses = False
            raise KafkaError("no leader")
        return dict.fromkeys(keys, PartitionEnd(0, 0, None, True))

    def assign(self, starts):
        self.reads = list(starts)

    def poll(self, limit, timeout_s):
        return NOTHING


def test_a_copy_whose_changelog_could_not_be_looked_up_is_tried_again(settings, tmp_path):
    # The copy counted as followed, and nothing read its changelog any more.
    folder = StateFolder(State.on_disk(tmp_path), "application")
    standby = Standby(settings, {"one": "log-one"}, folder, ())
    standby._client = changelogs = Changelogs()
    standby.step({0, 1})
    with pytest.raises(KafkaError, match="no leader"):
        standby.step({0})
    standby.step({0})
    assert changelogs.reads == [TopicPartition("log-one", 1)]
    folder.close()


def test_an_instance_without_copies_says_so(cluster, settings, wait_for, tmp_path, system):
    produce(cluster, "no-copies", [(0, "a", 1_000)], 1)
    settings = settings.with_state(State.on_disk(tmp_path, cache="16MB"))
    control, done = sums(settings, "no-copies", None).to_mat(Sink.ignore(), Keep.both).run(system)
    wait_for(lambda: control.snapshot()["partitions"] and not control.store("sums").lag)
    with pytest.raises(UnknownStore, match=r"keeps no copies of others; give it State.on_disk\(…, standbys=1\)"):
        control.store("sums").get("b", stale=True).result(20)
    with pytest.raises(UnknownStore, match="keeps no copies of others"):
        control.store("sums").copies().result(20)
    control.shutdown().result(30)
    done.result(30)
