"""The log of elements that supervision drops: where they were."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.engine.supervision import log_skipped
from streamactors.kafka.subscriptions import TopicPartition


def test_a_dropped_element_is_before_places_that_a_person_can_read(caplog: pytest.LogCaptureFixture) -> None:
    source = object()
    mark = {(source, TopicPartition("clicks", number)): (1, 10 + number) for number in range(6)}
    logic: Any = SimpleNamespace(name="places", inlets=[SimpleNamespace(items=["an element", mark])])
    error = ValueError("not this one")
    error.add_note("in stage places")
    log_skipped(logic, error)
    assert caplog.messages == [
        "skipped, before clicks-0@10, clicks-1@11, clicks-2@12 and 3 more: ValueError: not this one; in stage places"
    ]
