"""A retried flow gets one element at a time; a stage in it that would work on several is named when the graph is built."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from streamactors import Flow, RestartSettings, RetryFlow, Source


async def call(x: Any) -> Any:
    return x


SERIAL: dict[str, Any] = {
    "map_async": Flow.map_async(8, call),
    "map_async_unordered": Flow.map(str).map_async_unordered(8, call).map(str),
    "map_async_partitioned": Flow.map_async_partitioned(8, lambda x: x, call),
    "flat_map_merge": Flow.flat_map_merge(8, Source.single),
}
WRAPPED: dict[str, Any] = {
    "retry": lambda flow: flow.retry(3, "10ms"),
    "RetryFlow": lambda flow: RetryFlow.with_backoff(RestartSettings("10ms", "1s"), flow, lambda x, result: None),
}


@pytest.mark.parametrize("kind", SERIAL)
@pytest.mark.parametrize("wrap", WRAPPED)
def test_a_stage_whose_parallelism_is_lost_is_named_with_the_way_out(
    caplog: pytest.LogCaptureFixture, kind: str, wrap: str
) -> None:
    # 16 calls of 0.1 s took 1.6 s instead of 0.2 s, and nobody said why
    with caplog.at_level(logging.WARNING):
        WRAPPED[wrap](SERIAL[kind])
    (message,) = caplog.messages
    assert message.startswith(f"{wrap} runs one element at a time through its flow, so stage {kind}")
    calls = "retry the calls instead: map_async(…, retry=…, timeout=…, dead_letters=…)"
    way_out = calls if kind.startswith("map_async") else "write map_async(8, …, retry=…) for the part that fails"
    assert message.endswith(f"is 8, never works on more than one; for 8 at a time {way_out}")


@pytest.mark.parametrize("flow", [Flow.map(str), Flow.map_async(1, call), Flow.flat_map_concat(Source.single)])
@pytest.mark.parametrize("wrap", WRAPPED)
def test_a_flow_that_loses_nothing_is_not_named(caplog: pytest.LogCaptureFixture, flow: Any, wrap: str) -> None:
    WRAPPED[wrap](flow)
    assert caplog.messages == []
