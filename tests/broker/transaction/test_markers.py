"""The markers that one coordinator delivers: what it says about those that are refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors import log_limit
from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.markers import Markers
from streamactors.broker.transaction.transaction import TopicPartition
from streamactors.broker.transaction.transaction_events import SendMarkers


def test_markers_that_are_refused_for_their_old_epoch_are_one_line_and_are_not_sent_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A transaction over a thousand partitions whose coordinator was replaced was a thousand lines.
    monkeypatch.setattr(log_limit._of_process, "_now_s", lambda: 0.0)
    partitions = frozenset(TopicPartition("orders", number) for number in range(30))
    image = SimpleNamespace(topics={"orders": SimpleNamespace(partitions=range(30))})
    node: Any = SimpleNamespace(metadata=SimpleNamespace(image=image))
    waiting: list[Any] = []
    writer: Any = SimpleNamespace(write=lambda where, send, epoch, then: waiting.append(then))
    done: list[str] = []
    markers = Markers(node, writer, 3, lambda transactional_id, send: done.append(transactional_id))
    markers.send("tx", SendMarkers(7, 0, True, partitions))
    assert len(waiting) == 30
    for then in waiting:
        then(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    assert caplog.messages == [
        "tx: the marker for orders-0 is refused: TRANSACTION_COORDINATOR_FENCED; a newer coordinator or producer epoch writes its own"
    ]
    assert len(waiting) == 30
    assert done == []
