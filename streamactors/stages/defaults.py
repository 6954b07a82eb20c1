"""Defaults of operators' parameters. They are here, away from the stages, so that the signature of an operator loads no stage."""

from __future__ import annotations

from typing import Any, Final

from streamactors.stages.restart_settings import RestartSettings


class _NotGiven:
    """The default of a parameter for which None would be a value."""

    def __repr__(self) -> str:
        return "not given"


NOT_GIVEN: Final[Any] = _NotGiven()
ANY_ANSWER: Final[Any] = object()
"""As `ack`: every answer counts."""
NO_MESSAGE: Final[Any] = object()
"""As `on_init` or `on_complete`: no message is sent."""
BACKPRESSURE: Final = "backpressure"
RECONNECT: Final = RestartSettings("1s", "30s")
MOST_OFFERS: Final = 1_024
"""The most offers that wait for room in a queue with back-pressure."""
BLOCK_BYTES: Final = 64 * 1024
"""The longest element that a decompressing operator emits, and the bytes of a block that is read of a file."""
FRAME_BYTES: Final = 1 << 20
"""The bytes before compression of a frame that `zstd` writes."""
LARGEST_FRAME: Final = 64 << 20
LONGEST_ROW: Final = 1_048_576
LONGEST_EVENT: Final = 1_048_576
