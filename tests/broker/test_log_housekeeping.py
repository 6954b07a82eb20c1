"""When the threads of the logs run next."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from streamactors.broker.server import log_housekeeping
from streamactors.clock import VirtualClock


class StillDispatcher:
    """Keeps what it should run later; the test runs it."""

    due: list[tuple[float, Callable[[], None]]]

    def __init__(self, name: str, clock: VirtualClock) -> None:
        self.due = []

    def execute(self, fn: Callable[[], None]) -> None:
        self.due.append((0, fn))

    def call_later(self, delay_ms: float, fn: Callable[[], None]) -> None:
        self.due.append((delay_ms, fn))


@pytest.mark.parametrize(("backoff_ms", "pause_ms"), [(0, 100), (15_000, 15_000)])
def test_the_cleaner_pauses_when_no_log_needs_compaction(
    monkeypatch: pytest.MonkeyPatch, backoff_ms: int, pause_ms: int
) -> None:
    # With log.cleaner.backoff.ms=0 the cleaner looked through all logs without a pause and took a whole core.
    monkeypatch.setattr(log_housekeeping, "Dispatcher", StillDispatcher)
    node = SimpleNamespace(
        data_plane=SimpleNamespace(name="broker"),
        clock=VirtualClock(),
        config=SimpleNamespace(log_cleaner_enable=True, log_cleaner_backoff_ms=backoff_ms),
        logs=SimpleNamespace(cleaner=SimpleNamespace(run_once=lambda now_ms: False)),
    )
    housekeeping = log_housekeeping.LogHousekeeping(node)  # type: ignore[arg-type]
    housekeeping.start()
    cleaner = housekeeping._cleaner
    _, clean = cleaner.due.pop()  # type: ignore[attr-defined]
    clean()
    assert [delay_ms for delay_ms, _ in cleaner.due] == [pause_ms]  # type: ignore[attr-defined]
    node.logs.cleaner.run_once = lambda now_ms: True
    clean()
    assert cleaner.due[-1][0] == 0  # type: ignore[attr-defined]
