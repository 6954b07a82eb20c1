"""Addresses of actors in this process.

A Thespian `ActorAddress` that refers to the mailbox itself: sending costs no look-up. It is hashable, equal only to
itself, and survives `copy.deepcopy` (Thespian copies a message before it tries again). It cannot be pickled, because no
other process has the mailbox.
"""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from thespian.actors import ActorAddress


class Mailbox(Protocol):
    """The receiver at an address: takes (message, sender)."""

    name: str

    def tell(self, message: tuple[Any, Any], /) -> None: ...


class ActorRef(ActorAddress):  # type: ignore[misc]
    """Where to send messages for one actor."""

    __slots__ = ("_mailbox", "_nobody")

    def __init__(self, mailbox: Mailbox, nobody: ActorRef | None = None) -> None:
        self._mailbox = mailbox
        self._nobody = nobody

    def tell(self, message: Any, sender: ActorRef | None = None) -> None:
        """Send a message; thread-safe, never waits. Replies to an omitted sender go to the dead letters."""
        self._mailbox.tell((message, sender or self._nobody))

    @property
    def name(self) -> str:
        return self._mailbox.name

    @property
    def _aaddr(self) -> str:
        return self._mailbox.name

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = object.__hash__

    def __copy__(self) -> ActorRef:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ActorRef:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"{self} is the address of an actor in this process; no other process can use it, so it cannot be pickled"
        )

    def __repr__(self) -> str:
        return f"<ActorRef {self._mailbox.name}>"
