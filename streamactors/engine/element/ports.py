"""The ports of a per-element stage, on which `pull`, `grab` and `push` work. Owner: the stage's ElementLogic."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streamactors.engine.island.connection import Connection

EMPTY: Final[Any] = object()
"""The value of `Inlet.element` when there is no element."""

FED: Final = 0  # not pulled, while a chunk is being fed to the stage
PULLED: Final = 1
RESTING: Final = 2  # not pulled, and no chunk is being fed
CLOSED: Final = 3

Reader = tuple[Callable[[Any], None], Callable[[], None] | None]
"""The functions given to `read`: the first is called with the element, the second when the port ends without one."""


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
        self.read_handler = handler  # the stage's own, while a reader replaces it

    def __repr__(self) -> str:
        return f"Inlet({self.name})"


class Outlet:
    """An output port as a per-element stage sees it. `pulled`: an element may be pushed; pushed elements are collected in `buffer`."""

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
        self.finishing = False  # complete once everything emitted has been pushed
        self.handler = handler
        self.passive = passive  # its handler does nothing but pull the only inlet
        self.stage_handler = (handler, passive)  # the stage's own, while emitting replaces it

    def __repr__(self) -> str:
        return f"Outlet({self.name})"


class NotYet:
    """Replaces the ports until the stage is bound; every use raises the error that `complain` returns."""

    def __init__(self, complain: Callable[[], BaseException]) -> None:
        self._complain = complain

    def __getitem__(self, index: int) -> Any:
        raise self._complain()

    def __iter__(self) -> Any:
        raise self._complain()

    def __len__(self) -> int:
        raise self._complain()
