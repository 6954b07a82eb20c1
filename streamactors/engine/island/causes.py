"""The causes of a cancellation that are not failures, and the strategies that decide how a cancelled stage ends."""

from __future__ import annotations


class NonFailureCancellation(Exception):  # it is a reason, not an error
    """Base of the causes that complete the upstream stage instead of failing it."""


class NoMoreElementsNeeded(NonFailureCancellation):
    """Downstream needs no more elements."""


class StageWasCompleted(NonFailureCancellation):
    """The downstream stage completed for another reason."""


NO_MORE_ELEMENTS = NoMoreElementsNeeded("no more elements needed")
STAGE_COMPLETED = StageWasCompleted("stage was completed")


def propagate_failure(cause: BaseException) -> BaseException | None:
    """The default strategy: a failure fails the stage, anything else completes it."""
    return None if isinstance(cause, NonFailureCancellation) else cause


def complete_stage(_: BaseException) -> BaseException | None:
    """Strategy: every cancellation completes the stage."""
    return None


def fail_stage(cause: BaseException) -> BaseException | None:
    """Strategy: every cancellation fails the stage with its cause."""
    return cause
