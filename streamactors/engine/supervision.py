"""What happens to an element whose user function raised (Akka Streams' supervision directives)."""

from __future__ import annotations

import enum
from collections.abc import Callable


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
