"""What passes through the controller: a command that waits, and a change that is being committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from streamactors.broker.controller.command import Command, PlannedChange
from streamactors.broker.metadata.delta import ImageDelta

Reply = Callable[[Any], object]


class Submitted(NamedTuple):
    """A command in the controller's mailbox."""

    command: Command
    reply: Reply


class Change(NamedTuple):
    """A change that is in the log and not committed yet. `command` is what asked for it, None for the controller itself."""

    delta: ImageDelta
    folders: list[tuple[str, int]]  # made for it
    made: PlannedChange
    reply: Reply
    command: Command | None
