"""Connections end before the logs find no descriptor: a flood of clients took partitions out of service."""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamactors.broker.network import descriptor_reserve
from streamactors.broker.network.descriptor_reserve import DescriptorReserve
from tests.broker.live_broker import LiveBroker, batch, produce_body
from tests.broker.wire import WireClient, wait_until


def limit_to(monkeypatch: pytest.MonkeyPatch, soft: int) -> None:
    monkeypatch.setattr(descriptor_reserve.resource, "getrlimit", lambda _: (soft, soft))


def lowest_free() -> int:
    lowest = os.dup(0)
    os.close(lowest)
    return lowest


@pytest.fixture
def no_gaps() -> Iterator[None]:
    """No number below the highest open descriptor is free. In a gap a few connections fit, and the next one has a far higher number."""
    open_ones = [int(each) for each in os.listdir("/proc/self/fd")] if Path("/proc/self/fd").exists() else [0]
    fillers: list[int] = []
    while lowest_free() < max(open_ones):
        fillers.append(os.dup(0))
    yield
    for each in fillers:
        os.close(each)


@pytest.mark.parametrize(
    ("soft", "log_room", "last"),
    [(1_024, 512, 447), (20_000, 10_000, 9_935), (256, 128, 95), (1_024, 0, 959)],
)
def test_the_logs_and_small_files_keep_their_descriptors(
    monkeypatch: pytest.MonkeyPatch, soft: int, log_room: int, last: int
) -> None:
    limit_to(monkeypatch, soft)
    reserve = DescriptorReserve(lambda: log_room)
    assert reserve.has_room(last)
    assert not reserve.has_room(last + 1)


def test_a_process_without_a_limit_accepts_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_to(monkeypatch, resource.RLIM_INFINITY)
    assert DescriptorReserve(lambda: 10**9).has_room(10**6)


def test_connections_wait_until_others_end_and_the_accepted_ones_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, no_gaps: None
) -> None:
    with LiveBroker(tmp_path) as live:
        live.create_topic("orders")
        with live.client() as writer:
            writer.call(0, 9, produce_body(batch(b"a")))
            room = live.node.logs.log_room()
            free = lowest_free()
            limit_to(
                monkeypatch, next(soft for soft in range(free, 10**6) if soft - min(64, soft // 8) - room == free + 20)
            )
            clients: list[WireClient] = []
            while len(live.node.processor.connections) == len(clients) + 1:
                clients.append(live.client())
                wait_until(lambda: len(live.node.processor.connections) > len(clients) or bool(caplog.records))
            assert 5 <= len(clients) <= 21
            assert "accepts no connection until others end: the descriptors that are left are kept" in caplog.text
            writer.call(0, 9, produce_body(batch(b"b")))
            waiting = live.client()
            waiting.send(18, 0, {})
            for client in clients:
                client.close()
            assert waiting.receive()[1].error_code == 0
    assert len([each for each in caplog.records if each.levelno >= logging.WARNING]) == 1
