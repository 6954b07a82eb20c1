"""What happens to an element whose user function raised (Akka Streams' supervision directives)."""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.engine.user_code import blame, shortened

if TYPE_CHECKING:
    from streamactors.engine.logic import Logic

log = logging.getLogger("streamactors.supervision")


class Directive(enum.Enum):
    """The three answers of a decider."""

    STOP = "stop"  # the stage fails; the default
    RESUME = "resume"  # drop the element, keep the stage's state
    RESTART = "restart"  # drop the element, start again from the stage's first state


Decider = Callable[[BaseException], Directive]


def stopping(_: BaseException) -> Directive:
    """The default decider: every error stops the stage."""
    return Directive.STOP


def resuming(_: BaseException) -> Directive:
    """Drop every element that raises and go on."""
    return Directive.RESUME


def restarting(_: BaseException) -> Directive:
    """Drop every element that raises and reset the stage's state."""
    return Directive.RESTART


def checked_decider(decider: Decider) -> Decider:
    """Return the decider, refusing what is no Directive: an answer that is forgotten must not mean that elements are dropped."""

    def decide(error: BaseException) -> Directive:
        directive = decider(error)
        if not isinstance(directive, Directive):
            raise TypeError(
                f"the decider returned {shortened(directive, 60)} for {type(error).__name__}; "
                "give Directive.STOP, Directive.RESUME or Directive.RESTART"
            ) from error
        return directive

    return decide


def directive_for(logic: Logic, error: BaseException, element: Any, fn: Any = None) -> Directive:
    """Return what is to be done about `error`, raised by `fn` with `element` in a stage of one inlet.

    The error gets the note that names stage, element and line. What is skipped is logged, with the position it stood before where
    positions are followed."""
    blame(error, logic.name, element, fn)
    decider = logic.attributes.decider
    directive = Directive.STOP if decider is None else decider(error)
    if directive is not Directive.STOP:
        log_skipped(logic, error)
    return directive


def log_skipped(logic: Logic | None, error: BaseException) -> None:
    """Write down that supervision dropped an element; the note on `error` names it. No logic: in a fused loop."""
    if log.isEnabledFor(logging.WARNING):
        items = logic.inlets[0].items if logic is not None else ()
        position = next((mark for mark in items if isinstance(mark, dict)), None)
        where = f", before position {position}" if position is not None else ""
        log.warning(
            "skipped%s: %s: %s; %s", where, type(error).__name__, error, "; ".join(getattr(error, "__notes__", ()))
        )
