"""Where a coordinator stands in its life, and what it answers when it cannot serve."""

from __future__ import annotations

from enum import Enum

from streamactors.broker.errors import ErrorCode


class Phase(Enum):
    """What a coordinator can say about its keys; the value is what a request hears."""

    LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # the partition is being read
    ACTIVE = ErrorCode.NONE  # it knows everything
    FAILED = ErrorCode.COORDINATOR_NOT_AVAILABLE  # the partition cannot be read; a restart tries again
    RESIGNED = ErrorCode.NOT_COORDINATOR  # another broker leads the partition

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.value)
