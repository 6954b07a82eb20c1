"""The log of late rows: a line a second for each step, with the number of rows that it has refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.log_limit import LogLimit
from streamactors.windows import Record
from streamactors.windows.operators.windowed import late_rows
from streamactors.windows.operators.windowed.late_rows import refuse_row


def test_late_rows_of_a_step_are_logged_once_and_all_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_rows, "log_limited", LogLimit(now_s=lambda: 0.0).log)
    env: Any = SimpleNamespace(late=None, metrics=SimpleNamespace(dropped_late=0, late_rows=[]))
    for at_ms in range(100):
        refuse_row("visits", env, Record("a", 1, at_ms), 0, 100, stream_time=1_000, grace_ms=0)
    refuse_row("others", env, Record("b", 1, 7), 0, 100, stream_time=1_000, grace_ms=0)
    assert [message.partition(" for window")[0] for message in caplog.messages] == [
        "visits: 1 late rows dropped so far; the last: key 'a' at 0 ms",
        "others: 101 late rows dropped so far; the last: key 'b' at 7 ms",
    ]
