"""When the timers of a windowed stage are due: processors that the wall clock calls, and the silence of a stream without partitions.

Kafka's partitions report their silence by a mark (`Idle`); a stream without partitions has a timer instead.

Owner: the windowed stage; pure, the times are arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

REVOKING_MS: Final = 100.0
"""How soon, at the earliest, processors are called again by the wall clock while a partition with due processors is being revoked."""


class StageTimers:
    """The delays of one stage's timers."""

    def __init__(self) -> None:
        self._last_input_ms = 0.0
        self._wall_at_least_ms = 1.0

    def heard(self, now_ms: float) -> None:
        """Rows have come, or the stage has started; a stage without demand does not count the time as silence."""
        self._last_input_ms = now_ms

    def silent_ms(self, now_ms: float) -> int:
        """Return how long no row has come."""
        return int(now_ms - self._last_input_ms)

    def until_silence_ms(self, dues_ms: Iterable[int | None], now_ms: float) -> float | None:
        """Return the delay until the first of the silences at which tasks emit; None if no task does."""
        first = min((at for at in dues_ms if at is not None), default=None)
        return None if first is None else max(1.0, first - (now_ms - self._last_input_ms))

    def called(self, *, refused: bool) -> None:
        """The processors were called by the wall clock; `refused`: some were not, because the next owner of their partition calls them."""
        self._wall_at_least_ms = REVOKING_MS if refused else 1.0

    def until_wall_ms(self, dues_ms: Iterable[int | None], wall_ms: int) -> float | None:
        """Return the delay until the first time of the wall clock at which processors are due; None if none is."""
        first = min((at for at in dues_ms if at is not None), default=None)
        return None if first is None else max(self._wall_at_least_ms, first - wall_ms)
