"""The ports of a per-element stage: what `pull`, `grab` and `push` look at. Owner: the stage's ElementLogic."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streamactors.engine.connection import Connection

EMPTY: Final[Any] = object()
"""Stands in an inlet where no element does."""

FED: Final = 0  # not pulled, and the chunk at hand has the next element
PULLED: Final = 1
RESTING: Final = 2  # not pulled, and no chunk at hand
CLOSED: Final = 3

Reader = tuple[Callable[[Any], None], Callable[[], None] | None]
"""What `read` was given: what to do with the element, and when there is none."""


class Inlet:
    """An input port as a per-element stage sees it. `state` is one of the four above."""

    __slots__ = ("connection", "element", "handler", "name", "read_handler", "reader", "state")

    def __init__(self, name: str, connection: Connection, handler: Callable[[Inlet], None]) -> None:
        self.name = name
        self.connection = connection
        self.element: Any = EMPTY
        self.state = RESTING
        self.handler = handler
        self.reader: Reader | None = None
        self.read_handler = handler  # the stage's own, while a reader stands in its place

    def __repr__(self) -> str:
        return f"Inlet({self.name})"


class Outlet:
    """An output port as a per-element stage sees it. `pulled`: downstream waits for an element; pushed ones gather in `buffer`."""

    __slots__ = (
        "buffer",
        "connection",
        "emitting",
        "finishing",
        "handler",
        "name",
        "passive",
        "pulled",
        "stage_handler",
    )

    def __init__(self, name: str, connection: Connection, handler: Callable[[Outlet], None], passive: bool) -> None:
        self.name = name
        self.connection = connection
        self.pulled = False
        self.buffer: list[Any] = []
        self.emitting: deque[tuple[Any, Callable[[], None] | None]] = deque()
        self.finishing = False  # complete once everything emitted has gone
        self.handler = handler
        self.passive = passive  # its handler does nothing but pull the only inlet
        self.stage_handler = (handler, passive)  # the stage's own, while emitting stands in its place

    def __repr__(self) -> str:
        return f"Outlet({self.name})"


class NotYet:
    """Stands where the ports will be until the stage is bound; whoever touches it is told so."""

    def __init__(self, complain: Callable[[], BaseException]) -> None:
        self._complain = complain

    def __getitem__(self, index: int) -> Any:
        raise self._complain()

    def __iter__(self) -> Any:
        raise self._complain()

    def __len__(self) -> int:
        raise self._complain()
