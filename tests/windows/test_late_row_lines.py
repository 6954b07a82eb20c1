"""The log of late rows: how many a stage has dropped, their share of the input, and the grace that would have kept them."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors import Sink, Source
from streamactors.actors.system import ActorSystem
from streamactors.log_limit import LogLimit
from streamactors.windows import Record, SessionWindows, TimeWindows
from streamactors.windows.operators.windowed import late_rows
from streamactors.windows.operators.windowed.late_counts import LateReport
from streamactors.windows.operators.windowed.late_rows import refuse_row
from streamactors.windows.stage.stage import WindowStage
from streamactors.windows.topology.chain import Records, tasks_of
from tests.stages.harness import Bench


def env_with(report: LateReport | None) -> Any:
    counts = None if report is None else report.part(0)
    return SimpleNamespace(
        late=None, late_counts=counts, metrics=SimpleNamespace(task_id="0_0", dropped_late=0, late_rows=[])
    )


def said(line: str) -> str:
    """A line without the time of day."""
    before, _, after = line.partition(" since ")
    return before + after[len("12:00:00") :]


def test_without_a_stage_one_row_a_second_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_rows, "log_limited", LogLimit(now_s=lambda: 0.0).log)
    env = env_with(None)
    for at_ms in range(100):
        refuse_row("visits", env, Record("a", 1, at_ms), 0, 100, stream_time=1_000, grace_ms=0)
    refuse_row("others", env, Record("b", 1, 7), 0, 100, stream_time=1_000, grace_ms=0)
    assert [message.partition(" for window")[0] for message in caplog.messages] == [
        "visits: a row is dropped as late: key 'a' at 0 ms",
        "others: a row is dropped as late: key 'b' at 7 ms",
    ]


def test_a_line_has_the_number_the_share_and_the_grace_that_was_needed() -> None:
    report = LateReport(0)
    counts = report.part(0)
    counts.rows = 400
    env = env_with(report)
    for at_ms in range(100):
        row = Record("a", 1, at_ms)
        for start in (0, 50):  # two windows refuse each row: it is one row that is lost
            refuse_row("visits", env, row, start, start + 100, stream_time=60_000, grace_ms=10_000)
    assert report.grew
    assert [said(line) for line in report.lines()] == [
        "visits: 100 rows dropped as late, 25.0% of the 400 read; grace 10 s: with a grace of 59.901 s none would have been late; "
        "the last: key 'a' at 99 ms for window 50..150"
    ]
    assert not report.grew
    assert report.lines() == []


def test_the_grace_that_a_line_names_is_enough() -> None:
    def dropped(windows: Any) -> tuple[int, str]:
        rows = Records().group_by_key().windowed_by(windows).count()
        report = LateReport(0)
        task = tasks_of(rows.to_stream(), late_report=report)()
        task.process_chunk([Record("a", 1, at) for at in (0, 100_000, 5_000, 30_000)])
        lines = report.lines()
        return task.metrics.dropped_late, lines[0] if lines else ""

    for make in (lambda: TimeWindows.of_size("10s"), lambda: SessionWindows.with_gap("10s")):
        late, line = dropped(make().with_grace("10s"))
        assert late > 0
        needed = float(line.partition("with a grace of ")[2].partition(" s ")[0])
        assert dropped(make().with_grace(int(needed * 1_000)))[0] == 0
        assert (
            dropped(make().with_grace(int(needed * 1_000) - 2))[0] > 0
        )  # sessions and sliding windows close 1 ms later


def test_a_stage_logs_the_total_while_it_grows_and_at_its_end(
    timeless: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    counts = Records().group_by_key().windowed_by(TimeWindows.of_size(10).with_grace(0)).count(name="views")
    caplog.set_level(logging.WARNING)

    def lines() -> list[str]:
        return [message.partition(" read since")[0] for message in caplog.messages if "dropped as late" in message]

    with Bench(timeless, WindowStage(tasks_of(counts.to_stream()))) as bench:
        bench.request(1_000)
        bench.send(Record("a", 1, 1_000), *(Record("a", 1, at) for at in range(20)))
        assert lines() == []  # the first line waits for the whole burst
        bench.advance("1001ms")
        assert lines() == ["views: 20 rows dropped as late, 95.2% of the 21"]
        bench.send(*(Record("a", 1, at) for at in range(20, 30)))
        bench.advance("5s")
        assert len(lines()) == 1
        bench.advance("5001ms")
        assert lines()[1:] == ["views: 30 rows dropped as late, 96.8% of the 31"]
        bench.advance("60s")
        assert len(lines()) == 2
        bench.send(Record("a", 1, 5))
        bench.complete()
    assert lines()[2:] == ["views: 31 rows dropped as late, 96.9% of the 32"]


def test_a_short_run_logs_its_late_rows_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    rows = [Record("a", 1, 1_000), *(Record("a", 1, at) for at in range(7))]
    windows = TimeWindows.of_size(10).with_grace(0)
    source = Source.from_iterable(rows).group_by_key().windowed_by(windows).count(name="views").to_stream()
    source.run_with(Sink.ignore()).result(timeout=10)
    (line,) = [message for message in caplog.messages if "dropped as late" in message]
    assert line.startswith("views: 7 rows dropped as late, 87.5% of the 8 read since ")
