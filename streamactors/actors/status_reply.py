"""StatusReply: an answer that says whether the question could be answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamactors.errors import ActorError


class StatusError(ActorError):
    """An actor has answered with an error."""


@dataclass(frozen=True)
class StatusReply:
    """Made by `success` or `error`. `ask_with_status` emits the value, or fails with the error."""

    value: Any = None
    """The answer of a success."""
    failure: BaseException | None = None
    """The error of a failure; None for a success."""

    @staticmethod
    def success(value: Any = None) -> StatusReply:
        """Answer with a value."""
        return StatusReply(value)

    @staticmethod
    def error(reason: str | BaseException) -> StatusReply:
        """Answer with an exception, or with a string, which becomes a StatusError."""
        return StatusReply(None, reason if isinstance(reason, BaseException) else StatusError(reason))
