"""The ways to the page: from a system, a cluster, the commands; several processes on one page; the terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import jsonschema
import pytest
from click.testing import CliRunner

from streamactors import ActorSystem, KillSwitches, Sink, Source
from streamactors.broker import Cluster
from streamactors.cli.graphs.top import command as top
from streamactors.dashboard import schema
from streamactors.dashboard.combining import Combiner, DashboardUnreachable, Remote, combined
from streamactors.dashboard.plain_text import plain
from streamactors.dashboard.serving import Dashboard
from streamactors.dashboard.terminal import lines, shown
from streamactors.windows import Record, TimeWindows

SCHEMA = json.loads(schema.FILE.read_bytes())
GRAPH = """
import time
from streamactors import Sink, Source
def slow(x):
    time.sleep(0.002)
    return x
graph = Source.range(10**9).async_boundary().map(slow).named("decode").to(Sink.ignore())
"""


def get(url: str) -> Any:
    address, _, token = url.partition("/#token=")
    request = urllib.request.Request(f"{address}/api/state", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def until(url: str, holds: Callable[[dict[str, Any]], object]) -> Any:
    """Return the first state for which `holds` is true; fail after a minute."""
    deadline = time.monotonic() + 60
    while not holds(state := get(url)):
        assert time.monotonic() < deadline, state
        time.sleep(0.1)
    return state


@contextmanager
def started(*arguments: str, cwd: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a command that serves a page; give its process and the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "streamactors.cli.main", *arguments],
        stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, cwd=cwd,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        for line in process.stdout:
            found = re.search(r"live page: (\S+)", line)
            if found:
                yield process, found[1]
                break
        else:
            raise AssertionError("no page was served")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def test_a_system_serves_its_page_and_ends_it() -> None:
    with ActorSystem("mine") as system:
        page = system.serve_dashboard()
        Source.range(10**9).throttle(10, "1s").to(Sink.ignore()).named("my graph").run(system)
        state = until(page.url, lambda state: state["graphs"])
        assert state["process"]["name"] == "mine"
        assert [graph["name"] for graph in state["graphs"]] == ["my graph"]
    with pytest.raises(OSError, match=r"refused|reset"):
        get(page.url)


def test_a_page_shows_the_graphs_of_its_own_system() -> None:
    with ActorSystem("one") as one, ActorSystem("other") as other:
        Source.never().to(Sink.ignore()).run(other)
        with one.serve_dashboard() as page:
            assert page.state()["graphs"] == []
            assert list(lines(page.state())) == ["one: no graph runs now"]


def test_a_cluster_serves_its_topics_partitions_and_groups() -> None:
    with Cluster(dashboard=True) as cluster:
        cluster.create_topic("flights", 3)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            state = get(cluster.dashboard.url)
            if state["broker"] and [p["topic"] for p in state["broker"]["partitions"]].count("flights") == 3:
                break
            time.sleep(0.2)
        jsonschema.validate(state, SCHEMA)
        topics = {topic["name"]: topic["partitions"] for topic in state["broker"]["topics"]}
        assert topics["flights"] == 3
        partitions = [p for p in state["broker"]["partitions"] if p["topic"] == "flights"]
        assert [(p["start"], p["end"], len(p["isr"])) for p in partitions] == [(0, 0, 1)] * 3
        url = cluster.dashboard.url
    with pytest.raises(OSError, match=r"refused|reset"):
        get(url)


def culprits(state: dict[str, Any]) -> list[list[str]]:
    """Return the stages that hold each graph back."""
    return [[stage["name"] for stage in graph["stages"] if stage["culprit"]] for graph in state["graphs"]]


@pytest.mark.expects_exit_code(130)
def test_run_serves_a_page_and_dashboard_combines_two(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GRAPH)
    with started("run", "mine.py:graph", "--dashboard", cwd=tmp_path) as (_, first):
        with started("run", "mine.py:graph", "--dashboard", "0", cwd=tmp_path) as (_, second):
            with started("dashboard", first, second, cwd=tmp_path) as (_, both):
                state = until(both, lambda state: culprits(state) == [["decode"], ["decode"]])
                jsonschema.validate(state, SCHEMA)
                assert len(state["processes"]) == 2
                assert len({graph["process"] for graph in state["graphs"]}) == 2
                assert len({graph["id"] for graph in state["graphs"]}) == 2
        result = CliRunner().invoke(top, [first, "--once"])
        assert result.exit_code == 0
        assert "decode works" in result.output
        assert "\x1b" not in result.output


REDACTED = (
    GRAPH
    + """
def hide(element):
    return f"hidden {element % 2}"
"""
)


@pytest.mark.expects_exit_code(130)
def test_run_hides_elements_from_its_page(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(REDACTED)
    with started("run", "mine.py:graph", "--dashboard", "--redact", "mine.py:hide", cwd=tmp_path) as (_, url):
        (graph,) = get(url)["graphs"]
        stage = next(each for each in graph["stages"] if each["name"] == "decode")
        address, _, token = url.partition("/#token=")
        path = f"{address}/api/tap?run={graph['id']}&stage={stage['id']}"
        request = urllib.request.Request(path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            data = next(line for line in answer if line.startswith(b"data: "))
        assert set(json.loads(data[6:])["elements"]) <= {"'hidden 0'", "'hidden 1'"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--allow-changes"], "--allow-changes is about the live page: give --dashboard, too"),
        (["--redact", "mine.py:hide"], "--redact is about the live page: give --dashboard, too"),
        (["--dashboard", "--redact", "hide"], "MODULE:FUNCTION"),
        (["--dashboard", "--redact", "mine.py:graph"], "not a function"),
        (["--dashboard", "--redact", "mine.py:hid"], "did you mean hide?"),
    ],
)
def test_options_of_a_page_are_checked(tmp_path: Path, given: list[str], words: str) -> None:
    (tmp_path / "mine.py").write_text(REDACTED)
    command = [sys.executable, "-m", "streamactors.cli.main", "run", "mine.py:graph", *given]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_top_runs_a_graph_itself(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GRAPH)
    result = CliRunner().invoke(top, [f"{tmp_path}/mine.py:graph", "--once"])
    assert result.exit_code == 0, result.output
    assert "decode" in result.output


def test_an_address_without_its_token_is_refused_before_anything_is_asked() -> None:
    for url in ("http://127.0.0.1:1", "ftp://x/#token=a", "http://[::1/#token=a", "nonsense"):
        with pytest.raises(DashboardUnreachable):
            Remote(url)


def test_a_process_that_does_not_answer_is_named_and_the_others_are_shown() -> None:
    with ActorSystem("there") as system, system.serve_dashboard() as page:
        gone = Remote("http://127.0.0.1:9/#token=x")
        combiner = Combiner([Remote(page.url), gone, Remote(f"{page.address}/#token=wrong")])
        with Dashboard(combiner) as both:
            state = both.state()
            jsonschema.validate(state, SCHEMA)
            assert len(state["processes"]) == 1
            assert len(state["stalls"]) == 2
            assert any("127.0.0.1:9 does not answer" in text for text in state["stalls"])
            assert any("401" in text for text in state["stalls"])


def test_no_state_at_all_combines_to_a_valid_one() -> None:
    jsonschema.validate(combined([], 1), SCHEMA)


def test_the_terminal_shows_hostile_names_as_text() -> None:
    from rich.console import Console

    name = "[red]\x1b[31m\nevil[/red]"
    with ActorSystem(name) as system:
        Source.never().map(lambda x: x).named(name).to(Sink.ignore()).named(name).run(system)
        with system.serve_dashboard() as page:
            state = until(page.url, lambda state: state["graphs"])
    text = "\n".join(lines(state))
    assert "\x1b" not in text
    assert "[red]" in text
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        console.print(shown(state))
    assert "[red]" in captured.get()
    assert "\x1b" not in captured.get()
    assert len(plain("x" * 500)) == 60


@pytest.mark.expects_log("dropped as late")
def test_the_terminal_names_its_columns_shows_late_rows_and_hides_what_only_passes_elements() -> None:
    rows = [Record("a", 1, 1_000_000), *(Record("a", 1, at) for at in range(3))]
    windows = TimeWindows.of_size("1s").with_grace(0)
    open_end: Source[Any, Any] = Source.from_iterable(rows).concat(Source.never()).via(KillSwitches.single())
    counts = open_end.group_by_key().windowed_by(windows).count(name="views").to_stream()
    with ActorSystem("late") as system:
        counts.watch_termination().to(Sink.ignore()).named("late").run(system)
        with system.serve_dashboard() as page:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                state = page.state()
                shown_lines = list(lines(state))
                of_windows = [line.split() for line in shown_lines if line.split()[:2] == ["late", "0_0"]]
                if of_windows and of_windows[0][2] == "ended":
                    break
                time.sleep(0.1)
    assert any(line.split()[:3] == ["stage", "works", "no"] for line in shown_lines)
    names = {line.split()[0] for line in shown_lines if line.startswith("  ")}
    assert {"windows", "late"} <= names
    assert not {"kill_switch", "watch_termination"} & names
    open_windows = lines({**state, "windows": [{**state["windows"][0], "stream_time_ms": 1_000_000}]})
    (of_open,) = [line.split() for line in open_windows if line.split()[:2] == ["late", "0_0"]]
    assert of_open[2] == "1970-01-01T00:16:40Z"
    assert of_windows == [["late", "0_0", "ended", "0", "4", "3", "(75%)", "3"]]


def tapped(url: str, token: str, bootstrap: str) -> str:
    """Return the first element that a tap shows, while records come."""
    producer = ck.Producer({"bootstrap.servers": bootstrap})
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        for line in answer:
            if line.startswith(b"data: "):
                return str(json.loads(line[6:])["elements"][0])
            for partition in range(4):
                producer.produce("flights", b"flight 7", partition=partition)
            producer.flush(10)
    raise AssertionError("the tap has ended")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_members_of_a_run_share_one_page(tmp_path: Path) -> None:
    with Cluster() as cluster:
        cluster.create_topic("flights", 4)
        (tmp_path / "mine.py").write_text(
            "from streamactors import Sink\n"
            "from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions\n"
            f"settings = ConsumerSettings({cluster.bootstrap_servers!r}, group_id='g')\n"
            "texts = Consumer.source(settings, Subscriptions.topics('flights')).async_boundary().map(lambda r: r.value.decode()).named('decode')\n"
            "graph = texts.to(Sink.ignore()).named('flights')\n"
            "def hide(text): return '<' + text[:6] + '>'\n"
        )
        with started(
            "run", "mine.py:graph", "--processes", "2", "--dashboard", "--redact", "mine.py:hide", cwd=tmp_path
        ) as (_, url):
            deadline = time.monotonic() + 60
            found: set[int] = set()
            members: set[str] = set()  # for a moment the first one has all partitions
            while (len(found) < 4 or len(members) < 2) and time.monotonic() < deadline:
                time.sleep(0.5)
                state = get(url)
                members = {consumer["process"] for consumer in state["consumers"]}
                found = {p["partition"] for consumer in state["consumers"] for p in consumer["partitions"]}
            jsonschema.validate(state, SCHEMA)
            assert found == {0, 1, 2, 3}
            address, _, token = url.partition("/#token=")
            request = urllib.request.Request(
                f"{address}/api/records?topic=flights&limit=1", headers={"Authorization": f"Bearer {token}"}
            )
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert "event: end" in answer.read().decode(), "the topic is empty, and was searched"
            assert members == {"mine.py:graph[0]", "mine.py:graph[1]"}
            # a stage of each member is tapped: its elements come from the member's own process
            for graph in state["graphs"]:
                (stage,) = [each["id"] for each in graph["stages"] if each["name"] == "decode"]
                tap = f"{address}/api/tap?run={graph['id']}&stage={stage}"
                assert tapped(tap, token, cluster.bootstrap_servers) == "'<flight>'"
