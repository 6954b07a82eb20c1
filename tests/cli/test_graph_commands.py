"""`streamactors run`, `graph` and how both find MODULE:GRAPH."""

from __future__ import annotations

import gc

import pytest

from streamactors.broker import Cluster
from streamactors.cli.main import run


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
        f"streamactors: {name}:graph has ended",
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
