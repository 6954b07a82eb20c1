"""`streamactors check`: whether a graph could run, without running it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streamactors.broker import Cluster
from streamactors.cli.main import COMMANDS, run

GRAPHS = """
import reactivex.operators as rx
from streamactors import Flow, Sink
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions

settings = ConsumerSettings({broker!r}, group_id="checked")
started = []

def graph():
    return Consumer.source(settings, Subscriptions.topics({topic!r})).to(Sink.foreach(started.append))

def missing():
    return Consumer.source(settings, Subscriptions.topics("not-there")).to(Sink.ignore())

def unreachable():
    nowhere = ConsumerSettings("localhost:1", group_id="checked", preflight_timeout_ms=100)
    return Consumer.source(nowhere, Subscriptions.topics("x")).to(Sink.ignore())

def groupless():
    return Consumer.source(settings.with_group_id(None), Subscriptions.topics("x")).to(Sink.ignore())

def opaque():
    return Consumer.source(settings, Subscriptions.topics({topic!r})).via(Flow.rx(rx.group_by(len))).to(Sink.ignore())
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    with Cluster() as cluster:
        cluster.create_topic("orders", partitions=3)
        path = tmp_path_factory.mktemp("graphs") / "checked_graphs.py"
        path.write_text(GRAPHS.format(broker=cluster.bootstrap_servers, topic="orders"))
        yield str(path)


def checked(module, graph, capsys):
    code = run(["check", f"{module}:{graph}"])
    return code, *capsys.readouterr()


def test_a_graph_that_could_run_is_told_part_by_part_and_not_run(module, capsys):
    code, out, err = checked(module, "graph", capsys)
    assert (code, err) == (0, "")
    assert "orders (3 partitions)" in out
    assert sys.modules["checked_graphs"].started == []


@pytest.mark.parametrize(
    ("graph", "sentence"),
    [
        ("missing", "no topic not-there at"),
        ("unreachable", "no broker at localhost:1"),
        ("groupless", "needs a group_id"),
        ("opaque", "holds=False"),
    ],
)
def test_what_could_not_run_is_one_line_and_exit_code_1(module, graph, sentence, capsys):
    code, _, err = checked(module, graph, capsys)
    assert code == 1
    assert sentence in err
    assert err.count("\n") == 1


def test_what_is_not_there_is_exit_code_2(module, capsys):
    assert checked(module, "nothing", capsys)[0] == 2


def test_as_a_process_it_tells_by_its_exit_code(module):
    command = [sys.executable, "-m", "streamactors.cli.main", "check", f"{module}:missing"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", ["check", "dead-letters"])
def test_help_has_an_example(command, capsys):
    assert command in COMMANDS
    assert run([command, "--help"]) == 0
    assert "Example" in capsys.readouterr().out


TOPOLOGIES = """
from streamactors import Sink
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerSettings, Subscriptions

settings = ConsumerSettings({broker!r}, group_id="before")
read = dict(key="string", value="json")

def topology():
    topics = Consumer.topics(settings)
    users = topics.table("users", **read)
    clicks = topics.stream("clicks", **read).select_key(lambda r: r.value["user"])
    clicks.join_table(users, lambda click, user: click, name="joined").to("enriched", **read)
    return topics.graph()

def keyed():
    records = Consumer.records(settings, Subscriptions.topics("clicks"), dead_letters="clicks-dead", **read)
    return records.key_by(lambda r: r.value["user"]).count(name="views").to_stream().to(Sink.ignore())
"""


def test_topics_that_the_run_makes_may_be_missing_and_written_ones_are_named(tmp_path, capsys):
    with Cluster() as cluster:
        cluster.create_topic("clicks", partitions=2)
        cluster.create_topic("users", partitions=2)
        module = tmp_path / "topology_graphs.py"
        module.write_text(TOPOLOGIES.format(broker=cluster.bootstrap_servers))
        for command in (["check"], ["run", "--dry-run"]):
            assert run([*command, f"{module}:topology"]) == 0, capsys.readouterr().err
            out = capsys.readouterr().out
            assert "clicks (2 partitions), users (2 partitions)" in out or "users (2 partitions), clicks (2" in out
            assert "-repartition will be created" in out
            assert "no topic enriched yet; create it with `streamactors topics create enriched`" in out
            assert run([*command, f"{module}:keyed"]) == 0, capsys.readouterr().err
            out = capsys.readouterr().out
            assert "before-views-repartition will be created" in out
            assert "dead letters: no topic clicks-dead yet" in out
        cluster.create_topic("enriched")
        assert run(["check", f"{module}:topology"]) == 0
        assert "no topic" not in capsys.readouterr().out
