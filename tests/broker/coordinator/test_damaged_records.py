"""Records of an internal topic that cannot be read: they are left out, and a log full of them is one line a second."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors import log_limit
from streamactors.broker.group.classic.classic_group import GroupRules
from streamactors.broker.group.group_loading import load_groups
from streamactors.broker.transaction.transaction_record import load_transactions


@pytest.mark.parametrize(
    "load",
    [lambda batches: load_groups(batches, GroupRules(), "__internal-7"), lambda batches: load_transactions(batches, "__internal-7")],
    ids=["groups", "transactions"],
)  # fmt: skip
def test_a_log_full_of_damaged_records_is_one_line(
    load: Callable[[Any], object], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each damaged record was a line of its own: a copy of a damaged segment was a million lines.
    monkeypatch.setattr(log_limit._of_process, "_now_s", lambda: 0.0)
    records = [SimpleNamespace(key=b"\x00", value=b"", offset=offset) for offset in range(30, 60)]
    batch = SimpleNamespace(is_control=False, is_transactional=False, count=30, records=lambda: records)
    load([batch])
    (line,) = caplog.messages
    assert line.startswith("__internal-7: the record at offset 30 is left out: ")
