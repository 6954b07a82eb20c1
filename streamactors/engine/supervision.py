"""What happens to an element whose user function raised (Akka Streams' supervision directives)."""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.engine.user_code import blame, shortened
from streamactors.log_limit import log_limited
from streamactors.tracing import switch

if TYPE_CHECKING:
    from streamactors.engine.logic import Logic
    from streamactors.engine.marks.marks import PositionMark

log = logging.getLogger("streamactors.supervision")

MOST_PLACES = 3
"""So many places of a mark are shown."""


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
    """Drop every element for which the function raises; keep the stage's state."""
    return Directive.RESUME


def restarting(_: BaseException) -> Directive:
    """Drop every element for which the function raises; reset the stage's state."""
    return Directive.RESTART


def checked_decider(decider: Decider) -> Decider:
    """Return the decider with a check: a result that is not a Directive is an error. A forgotten `return` must not drop elements."""

    def decide(error: BaseException) -> Directive:
        try:
            directive = decider(error)
        except BaseException as own:
            if own is not error:  # a decider may raise the error itself, to stop the stage
                own.add_note(f"raised by the decider, which was asked about {type(error).__name__}: {error}")
            raise
        if not isinstance(directive, Directive):
            raise TypeError(
                f"the decider returned {shortened(directive, 60)} for {type(error).__name__}; "
                "give Directive.STOP, Directive.RESUME or Directive.RESTART"
            ) from error
        return directive

    return decide


def directive_for(logic: Logic, error: BaseException, element: Any, fn: Any = None) -> Directive:
    """Return the decider's directive for `error`, raised by `fn` with `element` in a stage of one inlet.

    The error gets a note that names stage, element and line. A dropped element is logged, with its position when the run has marks."""
    blame(error, logic.name, element, fn)
    decider = logic.attributes.decider
    directive = Directive.STOP if decider is None else decider(error)
    if directive is not Directive.STOP:
        logic.failures += 1
        log_skipped(logic, error)
    return directive


def failure_of(
    logic: Logic, error: BaseException, element: Any, fn: Any = None, restart: Callable[[], object] | None = None
) -> BaseException | None:
    """Ask the decider about `error`; return the error that stops the stage, or None: the element is dropped.

    `restart` sets the stage back to its first state. An error raised by the decider or by `restart` stops the stage, too."""
    try:
        directive = directive_for(logic, error, element, fn)
        if directive is Directive.RESTART and restart is not None:
            restart()
    except BaseException as worse:  # noqa: BLE001
        return worse
    return error if directive is Directive.STOP else None


def log_skipped(logic: Logic | None, error: BaseException) -> None:
    """Log that supervision dropped an element; the note on `error` names it. `logic` is None in a fused loop.

    Elements that fail alike, at one line of one stage, are logged once a second."""
    if switch.installed is not None:
        switch.installed.raised(error)
    if log.isEnabledFor(logging.WARNING):
        items = logic.inlets[0].items if logic is not None else ()
        position = next((mark for mark in items if isinstance(mark, dict)), None)
        where = f", before {_places(position)}" if position else ""
        log_limited(
            log, logging.WARNING, (logic.name if logic is not None else "", type(error), _line_of(error)),
            "skipped%s: %s: %s; %s", where, type(error).__name__, error, "; ".join(getattr(error, "__notes__", ())),
            caused_by=error,
        )  # fmt: skip


def _places(positions: PositionMark) -> str:
    """Return the places of a mark as "orders-0@17", for people; of many, the first ones."""
    places = [f"{key[1]}@{position[1]}" for key, position in positions.items()]
    more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
    return ", ".join(places[:MOST_PLACES]) + more


def _line_of(error: BaseException) -> tuple[str, int] | None:
    """Return the file and line that raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
