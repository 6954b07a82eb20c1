"""The end of a run is done when its state on disk is closed, and a process that ends then has its own exit code."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from streamactors import ActorSystem, Keep, Sink
from streamactors.kafka import Consumer, ProducerSettings, Subscriptions
from streamactors.windows import State
from streamactors.windows.state.disk.folder import StateFolder
from tests.kafka._windows import produce, windows_settings  # noqa: F401  # a fixture

pytest.importorskip("rocksdict")


class Closing:
    """Stops the closing of a state folder until it may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        close = StateFolder.close

        def slowly(folder: StateFolder) -> None:
            self.begun.set()
            assert self.go_on.wait(60)
            close(folder)

        monkeypatch.setattr(StateFolder, "close", slowly)


@pytest.fixture
def closing(monkeypatch):
    held = Closing(monkeypatch)
    yield held
    held.go_on.set()


def given_rows(cluster, topic):
    cluster.create_topic(topic, partitions=1)
    produce(cluster, topic, [(0, "k", at) for at in range(10)], 1)


def topology(cluster, settings, topic, **options):
    """Counts the rows of a topic in one transaction with its results."""
    producer = ProducerSettings(cluster.bootstrap_servers).with_transactional_id(topic)
    topics = Consumer.topics(settings, producer=producer, **options)
    topics.stream(topic, value="bytes").group_by_key().count(name="n").to_stream().to(f"{topic}-out", value="integer")
    return topics.graph()


def table(settings, topic, **options):
    """Counts the rows of a topic, at least once."""
    source = Consumer.records(settings, Subscriptions.topics(topic), key="string", **options)
    return source.group_by_key().count(name="n").to_stream().to_mat(Sink.ignore(), Keep.left)


@pytest.mark.expects_log("did not exist at")
@pytest.mark.parametrize("exactly_once", [True, False])
def test_the_end_of_a_run_is_done_when_its_state_is_closed(
    cluster, settings, wait_for, committed, tmp_path, closing, exactly_once
):
    # `drain_and_shutdown` returned while a thread was still closing RocksDB; a script that ended then was aborted
    topic = f"closing-{exactly_once}"
    given_rows(cluster, topic)
    settings = settings.with_state(State.on_disk(tmp_path, cache="16MB"))
    with ActorSystem("closing") as system:
        graph = topology(cluster, settings, topic) if exactly_once else table(settings, topic)
        control = graph.run(system)
        wait_for(lambda: committed(topic, 1) == {0: 10})
        control.stop()
        assert closing.begun.wait(30)
        wait_for(
            lambda: (getattr(control, "_stands_for", None) or control)._last_snapshot is not None
        )  # the consumer is closed
        ends = [control.is_shutdown, *filter(None, [control.completion])]
        assert len(ends) == 1 + exactly_once
        assert not any(end.done() for end in ends)
        closing.go_on.set()
        for end in ends:
            end.result(30)
        StateFolder(settings.state, settings.group_id).close()


def test_state_that_is_not_closed_holds_the_end_of_a_run_for_a_limited_time(
    cluster, settings, tmp_path, closing, caplog
):
    caplog.set_level(logging.WARNING, logger="streamactors.kafka")
    given_rows(cluster, "unclosed")
    settings = replace(settings.with_state(State.on_disk(tmp_path, cache="16MB")), close_timeout_ms=1_000)
    with ActorSystem("unclosed") as system:
        control = topology(cluster, settings, "unclosed", until="end").run(system)
        control.completion.result(30)
        control.is_shutdown.result(30)
        assert not closing.go_on.is_set()
        closing.go_on.set()
    assert f"{settings.group_id}: its state was not closed within 1000 ms after the consumer" in caplog.text


GRAPH = """
import sys
from streamactors import Keep, Sink
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from streamactors.windows import State
settings = ConsumerSettings({bootstrap!r}, {group!r}, "earliest", commit_interval_ms=50)
settings = settings.with_state(State.on_disk({folder!r}, cache="16MB"))
source = Consumer.records(settings, Subscriptions.topics({topic!r}), key="string")
counts = source.group_by_key().count(name="n").to_stream()
graph = counts.to_mat(Sink.foreach(lambda row: print(row.value, flush=True)), Keep.left)
if __name__ == "__main__":
    control = graph.run()
    sys.stdin.readline()
    control.drain_and_shutdown(timeout=30)
    sys.exit(7)
"""


@pytest.mark.parametrize("command", ["run", "a script"])
def test_a_process_with_state_on_disk_that_is_drained_has_its_exit_code(cluster, settings, tmp_path, command):
    # aborted (SIGABRT) in nine of ten runs
    topic = f"drained-{command.replace(' ', '-')}"
    given_rows(cluster, topic)
    module = tmp_path / "graph_of_a_test.py"
    values = {"bootstrap": cluster.bootstrap_servers, "group": settings.group_id, "topic": topic}
    module.write_text(GRAPH.format(folder=str(tmp_path / "state"), **values))
    streamactors = ["-m", "streamactors.cli.main", "run", f"{module}:graph"]
    for _ in range(2):
        produce(cluster, topic, [(0, "k", 10)], 1)
        with subprocess.Popen(
            [sys.executable, *(streamactors if command == "run" else [str(module)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            if command == "run":
                process.send_signal(signal.SIGTERM)
            _, err = process.communicate("\n", timeout=60)
        assert process.returncode == (0 if command == "run" else 7), err
