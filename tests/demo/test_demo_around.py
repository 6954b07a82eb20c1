"""The demo's folder, its progress, its pictures and its check, without a broker or Spark."""

from __future__ import annotations

import json
import threading
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from streamactors.cli.main import run
from streamactors.demo import flights_to_spark
from streamactors.demo.checking.check import check
from streamactors.demo.checking.tables import Tables
from streamactors.demo.checking.truth import Truth
from streamactors.demo.data import DemoError, flights_frame
from streamactors.demo.flight import Flight
from streamactors.demo.folder import Folder
from streamactors.demo.hours_on_executors import first_difference
from streamactors.demo.killing.crash import KILLS, Moment, moments
from streamactors.demo.showing.pictures import draw_pictures
from streamactors.demo.showing.progress import Progress, drawn
from streamactors.demo.showing.report import late_line
from streamactors.demo.steps import STEPS, spark_side
from streamactors.demo.topics import HOURS, HOURS_THERE, LATE


class Terminal(StringIO):
    def isatty(self):
        return True


@pytest.fixture(scope="module")
def truth():
    return Truth(flights_frame())


@pytest.fixture
def right(truth):
    """The tables of a run in which nothing went wrong."""
    dead = {flights_to_spark.NAME: truth.planted, "hours": truth.planted}
    both_ways: dict[str, tuple[int, str | None]] = {"departures-by-hour": (5, None), "late-flights": (3, None)}
    joined: dict[str, tuple[int, str | None]] = {"hours": (5, None), "flights": (3, None)}
    return Tables(truth.flights, truth.by_airline, truth.hours, truth.alerts, truth.late, dead, both_ways, joined)


# ── the check ─────────────────────────────────────────────────────────────────────────────────────────────────────


def wrong(tables, truth):
    return [finding.what for finding in check(tables, truth, truth.flights + truth.planted) if finding.wrong]


def test_the_check_finds_nothing_where_everything_is_right(right, truth):
    assert wrong(right, truth) == []
    assert (truth.flights, truth.planted) == (336_776, 41)
    assert truth.late > 4_000


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"flights": 336_775}, "flights in Parquet"),
        ({"late": 0}, "late flights"),
        ({"dead": {flights_to_spark.NAME: 41}}, "graphs with dead letters"),
        ({"dead": {flights_to_spark.NAME: 41, "hours": 42}}, "dead letters of hours"),
        ({"both_ways": {"late-flights": (3, None)}}, "topics that were written both ways"),
        ({"joined": {"flights": (3, None)}}, "joins that were done both ways"),
        (
            {"joined": {"flights": (3, "a row is only here"), "hours": (5, None)}},
            "flights, joined by Spark and by streamactors",
        ),
        ({"hours": lambda table: table.drop(5).reset_index(drop=True)}, "every hour with its weather"),
        ({"hours": lambda table: table.assign(visib=0.0)}, "every hour with its weather"),
        ({"alerts": lambda table: table.assign(cause="delays")}, "every alert"),
        ({"by_airline": lambda table: table.assign(miles=table["miles"] + 1)}, "per month and airline"),
    ],
)
def test_the_check_names_what_is_wrong(right, truth, change, what):
    changed = {name: value(getattr(right, name)) if callable(value) else value for name, value in change.items()}
    found = wrong(Tables(**{**vars(right), **changed}), truth)
    assert any(what in each for each in found), found


def test_the_topics_of_both_runs_are_compared_in_the_order_of_each_partition():
    def differences(there):
        def read(topic, parse):
            rows = there if topic == HOURS_THERE else [(0, 1, b"x"), (0, 0, b"y"), (1, 4, b"z")]
            return [
                parse(SimpleNamespace(partition=p, offset=at, key=b"k", value=value, timestamp=1))
                for p, at, value in rows
            ]

        return first_difference(read)

    assert differences([(1, 9, b"z"), (0, 5, b"x"), (0, 3, b"y")]) == {HOURS: (3, None), LATE: (3, None)}
    assert differences([(1, 9, b"z"), (0, 3, b"x"), (0, 5, b"y")])[HOURS][1].startswith(
        "row 0: (0, b'k', b'y', 1) here"
    )
    assert differences([(0, 5, b"x"), (0, 3, b"y")])[HOURS] == (3, "2 rows instead of 3")


# ── the folder ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("years of work")
    assert run(["demo", "--into", str(tmp_path)]) == 1
    assert "holds other things; give an empty folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(["demo", "--into", str(tmp_path / "file" / "below")]) == 1
    assert "give another folder: --into DIR" in capsys.readouterr().err


def test_a_run_goes_on_behind_the_steps_that_are_done_and_a_finished_one_starts_anew(tmp_path):
    folder = Folder(tmp_path / "demo")
    folder.prepare()
    assert not folder.begin()
    folder.step_done("produce", {"records": 3, "seconds": 1.0})
    (folder.tables / "counts.csv").write_text("from the first run")
    again = Folder(tmp_path / "demo")
    again.prepare()
    assert again.begin()
    assert again.steps_done() == {"produce": {"records": 3, "seconds": 1.0}}
    assert (again.tables / "counts.csv").exists()
    again.step_done("report", {})
    assert not again.begin()
    assert again.steps_done() == {}
    assert not (again.tables / "counts.csv").exists()


def test_a_second_demo_waits_until_the_first_has_let_go_of_the_folder(tmp_path):
    first, second = Folder(tmp_path), Folder(tmp_path)
    first.prepare()
    told, inside = [], []
    waiting = threading.Event()

    def say(text):
        told.append(text)
        waiting.set()

    def enter():
        with second.locked(say):
            inside.append("second")

    with first.locked(told.append):
        thread = threading.Thread(target=enter)
        thread.start()
        assert waiting.wait(30)
        inside.append("first")
    thread.join(30)
    assert inside == ["first", "second"]
    assert len(told) == 1
    assert "waiting for it" in told[0]


# ── progress ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_terminal_progress_is_plain_lines(capsys):
    told = []
    with Progress(told=lambda *step: told.append(step)) as progress, progress.step("hours", 10) as meter:
        meter.add(4)
        meter.add(4)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.splitlines()[0] == "hours: 0 of 10"
    assert out.splitlines()[-1].startswith("hours: 10 in ")
    assert told[0] == ("hours", 0, 10)
    assert told[-1] == ("hours", 10, 10)


def test_lines_in_a_pipe_come_every_few_seconds_with_rate_and_lag_and_a_wait_is_told_seldom(capsys, monkeypatch):
    now = SimpleNamespace(s=100.0)
    for name in ("streamactors.demo.showing.progress", "streamactors.cli.progress"):
        monkeypatch.setattr(f"{name}.time", SimpleNamespace(monotonic=lambda: now.s))
    with Progress() as progress, progress.step("hours", 1_000) as meter:
        for _ in range(60):  # 30 s in which Spark starts: a line at once, and after 15 and 30 s
            now.s += 0.5
            meter.set(0, Spark="starts")
        for done in range(10, 400, 10):
            now.s += 0.5
            meter.set(done, Spark="1 batch", windows="")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["hours: 0 of 1,000", *["hours: 0 of 1,000, Spark starts"] * 2]
    assert lines[3] == "hours: 10 of 1,000, 0/s, lag 990, Spark 1 batch"
    assert lines[4] == "hours: 110 of 1,000, 20/s, lag 890, Spark 1 batch"
    assert lines[-1] == "hours: 1,000 in 49.5 s"
    assert len(lines) == 8


def test_late_flights_are_one_line_with_one_of_them():
    flight = Flight("EWR", "IAH", "UA", 1545, 1, 1_357_021_800_000, 133, None, 1400)
    assert late_line(4_749, flight) == (
        "4,749 flights came after their hour had closed, such as UA 1545 from EWR, scheduled 2013-01-01 06:30 UTC, 133 min late: "
        "they are in the topic late-flights"
    )
    assert "cancelled: they are" in late_line(1, flight._replace(dep_delay=None))


def test_the_table_on_a_terminal_has_a_row_for_each_step_with_what_it_says():
    with Progress() as progress:
        with progress.step("produce", 10, "flights") as first:
            first.add(10)
        with progress.step("hours", 10_000, "flights") as second:
            second.set(4_000, windows="12 closed, 3 [late]", pauses="7")
            console = Console(width=140, record=True, file=StringIO())
            console.print(drawn([first, second]))
    text = console.export_text()
    assert "12 closed, 3 [late]" in text
    assert "4,000/10,000" in text
    assert "6,000" in text
    assert "Spark" not in text  # no step says anything of it


def test_on_a_terminal_the_report_stands_below_the_table(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "140")
    with Progress() as progress:
        progress.say("into /tmp/[demo]")
        with progress.step("hours", 10) as meter:
            meter.add(4)
        progress.finish()
        progress.say("all is right")
    lines = terminal.getvalue().splitlines()
    assert any("into /tmp/[demo]" in line for line in lines)  # no markup of rich's
    assert "10/10" in terminal.getvalue().partition("all is right")[0]
    assert lines[-1].endswith("all is right")


# ── kills ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_moments_follow_from_the_seed_and_come_in_order():
    assert moments(7) == moments(7)
    assert len({tuple(moments(seed)) for seed in range(50)}) > 40
    steps = list(STEPS)
    for seed in range(50):
        chosen = [(steps.index(moment.step), moment.share) for moment in moments(seed)]
        assert len(chosen) == KILLS
        assert chosen == sorted(chosen)


def test_a_moment_has_come_when_its_step_is_so_far_or_over():
    moment, steps = Moment("hours", 0.5), list(STEPS)
    assert not moment.has_come({}, steps)
    assert not moment.has_come({"step": "flights-to-spark", "done": 10, "total": 10}, steps)
    assert not moment.has_come({"step": "hours", "done": 4, "total": 10}, steps)
    assert moment.has_come({"step": "hours", "done": 5, "total": 10}, steps)
    assert moment.has_come({"step": "alerts", "done": 0, "total": 10}, steps)


# ── pictures ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_pictures_are_drawn_of_what_there_is(tmp_path, right):
    folder = SimpleNamespace(pictures=tmp_path, samples=tmp_path)
    assert [path.name for path in draw_pictures(right, folder)] == ["delays.png", "alerts.png"]
    look = {
        "at": 1.0,
        "demand": 5,
        "at_spark": 20_000,
        "gathered": 9_000,
        "asked": 11_000,
        "pauses": 1,
        "resumes": 0,
        "partitions": {"flights-0": {"buffered_bytes": 9, "paused": True}},
    }
    samples = tmp_path / f"{flights_to_spark.NAME}.jsonl"
    samples.write_text("".join(json.dumps({**look, "at": second}) + "\n" for second in range(3)) + '{"at": cut off')
    drawn = draw_pictures(right, folder)
    assert [path.name for path in drawn] == ["delays.png", "alerts.png", "pauses.png"]
    for path in drawn:
        assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("phase", "gathered", "asked"),
    [("waiting", 0, 0), ("giving", 0, 20), ("giving", 15, 5), ("giving", 23, 0), ("over", 0, 0)],
)
def test_spark_asks_for_what_its_next_batch_has_room_for(phase, gathered, asked):
    progress = {"phase": phase, "batch_rows": 20, "given_rows": 7, "gathered_rows": gathered}
    assert spark_side(progress) == {"at_spark": 7, "gathered": gathered, "asked": asked}


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr("streamactors.demo.data.PACKAGE", "no_such_package_of_flights")
    with pytest.raises(DemoError, match=r"pip install 'streamactors\[demo\]'"):
        flights_frame()
