"""`streamactors run`, `graph` and how both find MODULE:GRAPH."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from streamactors import Flow, Keep, RestartSettings, RestartSource, Sink, Source
from streamactors.broker import Cluster
from streamactors.broker.http.door import HttpDoor
from streamactors.cli.graphs.run_metrics import registry_of, serve_metrics
from streamactors.cli.graphs.supervised import SupervisedRun
from streamactors.cli.main import run
from streamactors.errors import StageFailed
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, ProducerSettings, Subscriptions


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module into the working folder; return the name it was given."""
    monkeypatch.chdir(tmp_path)
    names = []

    def write(text: str) -> str:
        name = f"streams_of_a_test_{os.getpid()}_{len(names)}_{abs(hash(str(tmp_path)))}"
        (tmp_path / f"{name}.py").write_text("from streamactors import *\nimport sys\n" + text)
        names.append(name)
        return name

    yield write
    for name in names:
        sys.modules.pop(name, None)


def said(capsys) -> str:
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err.strip()


def test_run_runs_a_graph_to_its_end(module, tmp_path, capsys):
    name = module("graph = Source.range(0, 3).to(Sink.foreach(lambda n: print('got', n)))\n")
    assert run(["run", f"{name}:graph"]) == 0
    assert capsys.readouterr().out == "got 0\ngot 1\ngot 2\n"


def test_run_takes_a_function_that_returns_a_graph_and_the_path_of_a_file(module, capsys):
    name = module("def make():\n    return Source.single('made').to(Sink.foreach(print))\n")
    assert run(["run", f"{name}.py:make"]) == 0
    assert capsys.readouterr().out == "made\n"


@pytest.mark.parametrize("keep", ["Keep.left", "Keep.right"])
def test_a_failed_stream_is_one_line_and_exit_code_1_whatever_is_materialized(module, capsys, keep):
    name = module(f"graph = Source.range(0, 3).map(lambda n: 1 // n).to_mat(Sink.ignore(), {keep})\n")
    assert run(["run", f"{name}:graph"]) == 1
    assert "ZeroDivisionError" in said(capsys)


SINK_WITHOUT_A_VALUE = """
from streamactors.engine.stage import SINK

class NoValue(GraphStage):
    shape = SINK
    def logic(self): return Take()

class Take(GraphStageLogic):
    def pre_start(self): self.pull(self.in_)
    def on_push(self, inlet):
        self.grab(inlet)
        self.pull(inlet)
"""


@pytest.mark.parametrize("keep", ["Keep.left", "Keep.right"])
def test_a_failure_is_told_once(module, capsys, caplog, keep):
    # the failure in the sink's own future was logged again when the process ended, as one that nobody has read
    name = module(f"graph = Source.range(0, 3).map(lambda n: 1 // n).to_mat(Sink.ignore(), {keep})\n")
    assert run(["run", f"{name}:graph"]) == 1
    gc.collect()
    assert "nobody has read" not in caplog.text + said(capsys)


def test_a_misspelt_graph_gets_the_one_that_was_meant(module, capsys):
    name = module(
        "def graph():\n    return Source.single(1).to(Sink.ignore())\nother = Source.empty().to(Sink.ignore())\n"
    )
    assert run(["run", f"{name}:grpah"]) == 2
    assert said(capsys) == f"streamactors: {name} has no grpah; did you mean graph?"


@pytest.mark.parametrize(
    "graph",
    [
        "Source.single(0).to(Sink.foreach(lambda n: 1 // n))",
        "Source.single(0).to(Sink.fold(1, lambda total, n: total // n))",
        "Source.single(0).map(lambda n: 1 // n).to(Sink.ignore())",
        "Source.single(0).map(lambda n: 1 // n).to(Sink.from_stage(NoValue()))",
        "Source.range(0, 3).grouped(3).async_boundary().map(lambda ns: 1 // ns[0]).to(Sink.ignore())",
        "Source.range(0, 3).to(Flow.map(lambda n: 1 // (n - 2)).to(Sink.ignore()))",
    ],
)
def test_what_fails_when_the_source_has_ended_fails_the_run_though_its_value_was_not_kept(module, capsys, graph):
    name = module(f"{SINK_WITHOUT_A_VALUE}\ngraph = {graph}\n")
    assert run(["run", f"{name}:graph"]) == 1
    assert "ZeroDivisionError" in said(capsys)


def test_a_branch_that_fails_beside_one_that_goes_on_fails_the_run(module, capsys):
    name = module(
        "with GraphDSL() as g:\n"
        "    source, fan = g.add(Source.range(0, 9)), g.add(Broadcast(2))\n"
        "    failing = g.add(Flow.map(lambda n: 1 // n).to_mat(Sink.ignore(), Keep.right), keep=True)\n"
        "    source >> fan\n"
        "    fan.out(0) >> failing\n"
        "    fan.out(1) >> Sink.ignore()\n"
        "graph = g.to_runnable()\n"
    )
    assert run(["run", f"{name}:graph"]) == 1
    assert "ZeroDivisionError" in said(capsys)


@pytest.mark.parametrize(
    ("text", "graph", "code", "told"),
    [
        ("", "no-colon", 2, "its form is MODULE:GRAPH"),
        ("graph = Source.single(1).to(Sink.ignore())", ":grap", 2, "has no grap; did you mean graph?"),
        ("graph = Source.single(1)", ":graph", 2, "is a Source, not a runnable graph; connect it to a sink"),
        ("graph = 3", ":graph", 2, "is a int, not a runnable graph"),
        ("def graph(n): ...", ":graph", 2, "takes arguments; give a function of none"),
        ("def graph(): return {}['x']", ":graph", 1, "KeyError"),
        ("1 // 0", ":graph", 1, "ZeroDivisionError: integer division or modulo by zero"),
        ("import there_is_no_such_module", ":graph", 1, "there_is_no_such_module"),
    ],
)
@pytest.mark.parametrize("command", ["run", "graph"])
def test_what_cannot_be_loaded_is_told_in_one_line(module, capsys, command, text, graph, code, told):
    name = module(text + "\n")
    assert run([command, name + graph if graph.startswith(":") else graph]) == code
    err = said(capsys)
    assert told in err
    assert len(err.splitlines()) == 1


def test_an_error_in_a_module_names_the_users_line(module, capsys):
    name = module("\n\nboom = [][1]\n")
    assert run(["graph", f"{name}:graph"]) == 1
    assert f"({name}.py:5)" in said(capsys)


def test_a_failed_stream_names_the_element_and_the_users_line_not_a_librarys(module, capsys):
    # the note named json/decoder.py:353, and `run` did not print it
    name = module("import json\ngraph = Source.single('{').map(lambda text: json.loads(text)).to(Sink.ignore())\n")
    assert run(["run", f"{name}:graph"]) == 1
    err = said(capsys)
    assert "element '{' (" in err
    assert f"{name}.py:4)" in err
    assert "decoder.py" not in err


def test_a_module_that_fails_in_a_library_is_told_with_the_users_line(module, capsys):
    name = module("import json\njson.loads('{')\n")
    assert run(["graph", f"{name}:graph"]) == 1
    assert f"({name}.py:4)" in said(capsys)


def test_run_says_that_a_graph_without_kafka_has_ended(module, capsys):
    name = module("graph = Source.single(1).to(Sink.ignore())\n")
    assert run(["run", f"{name}:graph"]) == 0
    assert said(capsys).splitlines() == [
        f"streamactors: running {name}:graph",
        f"streamactors: {name}:graph has ended; no offsets were committed",
    ]


def test_a_mistyped_command_gets_the_one_that_was_meant(capsys):
    assert run(["brokr"]) == 2
    assert "there is no command 'brokr'; did you mean broker?" in said(capsys)


def test_a_module_that_is_not_there_is_told(capsys):
    assert run(["run", "no.such.module:graph"]) == 2
    assert "there is no module 'no'" in said(capsys)
    assert run(["run", "no_such_file.py:graph"]) == 2
    assert "there is no file no_such_file.py" in said(capsys)


def test_graph_prints_mermaid_and_runs_nothing(module, capsys):
    name = module("graph = Source.range(0, 1).map(lambda _: print('ran')).async_boundary().to(Sink.foreach(print))\n")
    assert run(["graph", f"{name}:graph"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("flowchart LR\n")
    assert "boundary" in out
    assert "ran" not in out.split()


def test_a_dry_run_looks_at_brokers_and_topics_and_consumes_nothing(module, capsys):
    def graphs(bootstrap: str, patience_ms: int) -> str:
        return module(
            "from streamactors.kafka import *\n"
            f"settings = ConsumerSettings({bootstrap!r}, group_id='g', preflight_timeout_ms={patience_ms})\n"
            "def of(topic): return Consumer.source(settings, Subscriptions.topics(topic)).to(Sink.foreach(print))\n"
            "there, absent = of('there'), of('absent')\n"
        )

    with Cluster() as cluster:
        cluster.create_topic("there", 2)
        name = graphs(cluster.bootstrap_servers, 60_000)
        assert run(["run", "--dry-run", f"{name}:there"]) == 0
        assert "there (2 partitions)" in capsys.readouterr().out
        assert run(["run", "--dry-run", f"{name}:absent"]) == 1
        assert "absent" in said(capsys)
        gone = cluster.bootstrap_servers
    assert run(["run", "--dry-run", f"{graphs(gone, 500)}:there"]) == 1
    assert "no broker at" in said(capsys)


def test_a_graph_whose_progress_cannot_be_followed_fails_its_dry_run(module, capsys):
    name = module(
        "from streamactors.kafka import *\n"
        "import reactivex.operators as rx\n"
        "settings = ConsumerSettings('localhost:1', group_id='g')\n"
        "graph = (Consumer.source(settings, Subscriptions.topics('t'))"
        ".via(Flow.rx(rx.group_by(len))).to(Sink.ignore()))\n"
    )
    assert run(["run", "--dry-run", f"{name}:graph"]) == 1
    assert "rx" in said(capsys)


# ── ending from outside ───────────────────────────────────────────────────────────────────────────────────────────


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
        door = HttpDoor.of("0")
        with SupervisedRun(graph) as running, serve_metrics(door, registry_of(running)) as port:
            assert all_seen.wait(60)
            url, token = f"http://127.0.0.1:{port}/metrics", {"Authorization": f"Bearer {door.token}"}
            with urllib.request.urlopen(urllib.request.Request(url, headers=token)) as answer:
                text = answer.read().decode()
            assert 'streamactors_consumer_position{consumer="0",partition="numbers-0"} 100.0' in text
            assert 'streamactors_consumer_delivered_total{consumer="0"} 100.0' in text
            running.stop()
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
    assert f"{name}:graph was stopped before its sources had ended; no offsets were committed" in err


def test_a_stream_without_an_end_is_drained_into_its_file(module, tmp_path):
    endless = """
def tell(n):
    print("half way", flush=True)
    return str(n)

graph = Source.tick(0, 20, 1).map(tell).to_mat(Sink.to_lines("out.txt"), Keep.right)
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


def test_a_wrong_option_is_told_before_the_graph_starts(module, capsys):
    name = module("graph = Source.single(1).to(Sink.foreach(lambda _: print('started')))\n")
    assert run(["run", f"{name}:graph", "--stall-after", "soon"]) == 2
    assert capsys.readouterr().out == ""


def test_the_spans_of_run_are_numbers_of_seconds_or_say_their_unit(module, capsys):
    name = module("graph = Source.single(1).to(Sink.foreach(lambda _: print('started')))\n")
    for after in ("60", "1.5", "60s", "500ms"):
        assert run(["run", f"{name}:graph", "--stall-after", after, "--drain-timeout", after]) == 0
    assert capsys.readouterr().out == "started\n" * 4


def test_a_file_that_is_no_python_names_its_line_and_no_other_place(tmp_path, capsys):
    (tmp_path / "wrong.py").write_text("graph = (\n")
    assert run(["run", f"{tmp_path / 'wrong.py'}:graph"]) == 1
    said = capsys.readouterr().err
    assert "SyntaxError" in said
    assert "line 1" in said
    assert "importlib" not in said
