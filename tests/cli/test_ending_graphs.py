"""How `streamactors run` ends a graph from outside: by a signal, by `stop`, with what is in flight."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from streamactors import Flow, Keep, RestartSettings, RestartSource, Sink, Source
from streamactors.broker import Cluster
from streamactors.broker.http.endpoint_address import MetricsEndpoint
from streamactors.cli.graphs.run_metrics import live, readiness, serve_metrics
from streamactors.errors import BuildError, StageFailed
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    TopicPartition,
)
from streamactors.kafka.controls.supervised import SupervisedRun
from streamactors.kafka.state.changelogs.changelog_topics import RestoreProgress
from streamactors.metrics.registry import SystemCollector, registry_of
from tests.actors.eventually import eventually


def test_stop_ends_every_source_of_a_graph_and_what_is_in_flight_is_finished():
    seen: list[int] = []
    first = threading.Event()

    def see(n: int) -> None:
        seen.append(n)
        first.set()

    endless = RestartSource.with_backoff(RestartSettings("10ms", "1s"), lambda: Source.repeat(1)).merge(
        Source.repeat(2).async_boundary()
    )
    with SupervisedRun(endless.via(Flow.identity()).to_mat(Sink.foreach(see), Keep.right)) as running:
        assert first.wait(30)
        running.stop()
        running.stop()
        assert running.wait(30)
        assert running.error is None
    assert set(seen) <= {1, 2}


def test_a_very_long_chain_can_be_held_by_its_source():
    source = Source.range(0, 10)
    for _ in range(3_000):
        source = source.map(lambda n: n + 1)
    with SupervisedRun(source.to_mat(Sink.fold(0, lambda a, b: a + b), Keep.right)) as running:
        assert running.wait(60)
        assert running.error is None


def test_the_error_of_a_run_is_that_of_its_stream():
    with SupervisedRun(Source.range(0, 5).map(lambda n: 1 // (n - 2)).to(Sink.ignore())) as running:
        assert running.wait(30)
        assert isinstance(running.error, (ZeroDivisionError, StageFailed))


def test_a_consumer_whose_settings_are_refused_ends_the_run(monkeypatch):
    # the stream failed before there was a consumer, so nothing completed is_shutdown, and the command waited for it for ever
    monkeypatch.setenv("STREAMACTORS_KAFKA_ENABLE_AUTO_COMMIT", "true")
    settings = ConsumerSettings("127.0.0.1:1", group_id="g")
    with SupervisedRun(Consumer.source(settings, Subscriptions.topics("numbers")).to(Sink.ignore())) as running:
        assert running.wait(30)
        assert isinstance(running.error, BuildError)
        assert isinstance(running.controls[0].is_shutdown.exception(0), BuildError)


def test_a_run_that_restores_state_is_not_ready():
    with SupervisedRun(Source.repeat(1).to(Sink.ignore())) as running:
        assert readiness(running) == (True, [])
        restore = RestoreProgress(1_000, "views-0")
        restore.read(10)
        try:
            assert readiness(running) == (False, ["restoring views-0: 10 of at most 1000 entries"])
        finally:
            restore.end()
        assert readiness(running) == (True, [])


@pytest.mark.expects_log("lost numbers-0")
def test_a_run_whose_partitions_are_lost_is_not_ready_until_it_has_an_assignment_again():
    with Cluster() as cluster:
        cluster.create_topic("numbers", 1)
        settings = ConsumerSettings(cluster.bootstrap_servers, group_id="g")
        with SupervisedRun(Consumer.source(settings, Subscriptions.topics("numbers")).to(Sink.ignore())) as running:
            eventually(lambda: readiness(running)[0], 60)
            rebalances = running.controls[0].look.__self__._rebalances
            rebalances.on_lost([TopicPartition("numbers", 0)])
            assert readiness(running) == (False, ["Consumer.source: the consumer of group g has no assignment"])
            rebalances.on_assigned([TopicPartition("numbers", 0)])
            assert readiness(running) == (True, [])


def test_metrics_show_the_consumers_of_a_run():
    with Cluster() as cluster:
        cluster.create_topic("numbers", 1)
        Source.range(0, 100).map(lambda n: ProducerRecord("numbers", str(n))).run_with(
            Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
        ).result(30)
        settings = ConsumerSettings(cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest")
        seen, all_seen = [], threading.Event()

        def see(record) -> None:
            seen.append(record)
            if len(seen) == 100:
                all_seen.set()

        graph = Consumer.source(settings, Subscriptions.topics("numbers")).to_mat(Sink.foreach(see), Keep.right)
        door = MetricsEndpoint.of("0")
        with SupervisedRun(graph) as running:
            registry = registry_of(SystemCollector(running.system))
            with serve_metrics(door, registry, lambda: live(running), lambda: readiness(running)) as port:
                assert all_seen.wait(60)

                def get(path, token):
                    headers = {"Authorization": f"Bearer {door.token}"} if token else {}
                    url = f"http://127.0.0.1:{port}{path}"
                    try:
                        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
                            return answer.status, answer.read().decode()
                    except urllib.error.HTTPError as error:
                        return error.code, error.read().decode()

                text = get("/metrics", True)[1]
                labels = 'graph="Consumer.source",group="g"'
                assert f'streamactors_kafka_position{{{labels},partition="0",topic="numbers"}} 100.0' in text
                assert f"streamactors_kafka_delivered_total{{{labels}}} 100.0" in text
                assert "streamactors_consumer_" not in text
                assert "process_cpu_seconds_total" in text
                assert (get("/live", False), get("/ready", False)) == ((200, "live\n"), (200, "ready\n"))
                assert get("/metrics", False)[0] == 401
                running.stop()
                assert get("/ready", False) == (503, "not ready\n")
                assert get("/ready", True) == (503, "not ready\ndraining\n")
            assert running.wait(60)
            assert running.error is None


def test_sigterm_drains_a_kafka_graph_and_commits_what_was_in_flight(module, tmp_path):
    with Cluster() as cluster:
        cluster.create_topic("numbers", 1)
        Source.range(0, 50).map(lambda n: ProducerRecord("numbers", str(n))).run_with(
            Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
        ).result(30)
        name = module(
            "from streamactors.kafka import *\n"
            f"settings = ConsumerSettings({cluster.bootstrap_servers!r}, group_id='g', auto_offset_reset='earliest')\n"
            "graph = (Consumer.source(settings, Subscriptions.topics('numbers'))"
            ".to_mat(Sink.foreach(lambda r: print(r.value.decode(), flush=True)), Keep.right))\n"
        )
        command = [sys.executable, "-m", "streamactors.cli.main", "run", f"{name}:graph"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip() == "49":
                    break
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
        assert process.returncode == 0
        assert err.splitlines() == [
            f"streamactors: running {name}:graph: Consumer.source reads numbers in group g at {cluster.bootstrap_servers}",
            f"streamactors: SIGTERM: draining {name}:graph for at most 30 s; a second signal ends it at once",
            f"streamactors: {name}:graph is drained; committed numbers-0@50",
        ]
        settings = ConsumerSettings(cluster.bootstrap_servers, group_id="g")
        from streamactors.kafka import MetadataClient

        with MetadataClient(settings) as metadata:
            assert metadata.committed([("numbers", 0)]) == {("numbers", 0): 50}


COPIES_LINES = """
import os, time

def slowly(line):
    if int(line) == 100:
        print("half way", flush=True)
        time.sleep(0.5)             # the signal arrives meanwhile
    return line

graph = (Source.from_lines("in.txt").map(slowly).max_chunk(1).to_mat(Sink.SINK, Keep.right))
"""


def terminated(name: str, folder: Path, line: str = "half way") -> tuple[int, str]:
    """Run a graph as a process, send SIGTERM when it prints `line`; return its exit code and what it wrote on stderr."""
    command = [sys.executable, "-m", "streamactors.cli.main", "run", f"{name}:graph"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stdout is not None
        assert any(each.strip() == line for each in process.stdout)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    return process.returncode, err


@pytest.mark.parametrize("sink", ["to_lines('out.txt')", "to_json_lines('out.txt')", "to_csv('out.txt', ['line'])"])
def test_a_bounded_job_that_is_terminated_leaves_the_old_file_and_fails(module, tmp_path, sink):
    """24,239 of 60,001 lines took the place of a good file, with exit code 0."""
    (tmp_path / "in.txt").write_text("".join(f"{n}\n" for n in range(200_000)))
    (tmp_path / "out.txt").write_text("the whole of yesterday\n")
    graph = COPIES_LINES.replace("SINK", sink).replace(
        "return line", "return [line]" if "csv" in sink else "return line"
    )
    code, err = terminated(module(graph), tmp_path)
    assert code == 1
    assert (tmp_path / "out.txt").read_text() == "the whole of yesterday\n"
    assert 100 <= len((tmp_path / "out.txt.partial").read_text().splitlines()) < 200_000
    assert "CutShort: the stream was stopped before its sources had ended" in err
    assert "out.txt is unchanged; what this run has written is in" in err


def test_a_bounded_job_without_a_file_says_that_it_was_stopped_early(module, tmp_path):
    (tmp_path / "in.txt").write_text("".join(f"{n}\n" for n in range(200_000)))
    name = module(COPIES_LINES.replace("SINK", "ignore()"))
    code, err = terminated(name, tmp_path)
    assert code == 143
    assert f"{name}:graph was stopped before its sources had ended\n" in err
    assert "no offsets were committed" not in err  # there is no Kafka in it


def test_a_stream_without_an_end_is_drained_into_its_file(module, tmp_path):
    endless = """
def tell(n):
    print("half way", flush=True)
    return str(n)

graph = Source.tick(0, "20ms", 1).map(tell).to_mat(Sink.to_lines("out.txt"), Keep.right)
"""
    code, err = terminated(module(endless), tmp_path)
    assert (code, "is drained" in err) == (0, True)
    assert set((tmp_path / "out.txt").read_text().split()) == {"1"}


def test_a_stream_whose_sources_have_ended_is_finished_after_the_signal(module, tmp_path):
    finishes = """
import time

def slowly(line):
    if line == "199":
        print("half way", flush=True)
        time.sleep(0.5)
    return line

graph = Source.from_lines("in.txt").async_boundary(1_000).map(slowly).max_chunk(1).to_mat(Sink.to_lines("out.txt"), Keep.right)
"""
    (tmp_path / "in.txt").write_text("".join(f"{n}\n" for n in range(200)))
    code, err = terminated(module(finishes), tmp_path)
    assert (code, "is drained" in err) == (0, True), err
    assert (tmp_path / "out.txt").read_text() == (tmp_path / "in.txt").read_text()
