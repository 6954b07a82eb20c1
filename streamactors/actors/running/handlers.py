"""How an actor class handles a type of message, looked up once per pair of classes.

`ActorTypeDispatcher` walks the classes of the message and of the actor for every message (about 3 µs), but the result
depends only on the two classes. The walk here is Thespian's, including its order and the repeated call after `SUPER`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from thespian.actors import Actor, ActorTypeDispatcher

Behaviour = Callable[[Any, Any], object]
"""receiveMessage of one actor: (message, sender) -> None, or a ThespianWatch."""

_Handlers = tuple[Callable[[Any, Any, Any], object], ...]

_SUPER: Final = ActorTypeDispatcher.SUPER
_tables: dict[type, dict[type, _Handlers]] = {}


def behaviour_of(actor: Actor) -> Behaviour:
    """Return what receives the actor's messages: its own `receiveMessage`, or the same with remembered look-ups."""
    kind = type(actor)
    if getattr(kind, "receiveMessage", None) is not ActorTypeDispatcher.receiveMessage or "receiveMessage" in vars(
        actor
    ):
        receive: Behaviour = actor.receiveMessage
        return receive
    table = _tables.setdefault(kind, {})

    def receive_by_type(message: Any, sender: Any) -> object:
        message_type = type(message)
        handlers = table.get(message_type)
        if handlers is None:
            handlers = table[message_type] = _find_handlers(kind, message_type)
        for handle in handlers:
            result = handle(actor, message, sender)
            if result is None or result != _SUPER:
                return result
        unrecognized = getattr(actor, "receiveUnrecognizedMessage", None)
        return None if unrecognized is None else unrecognized(message, sender)

    return receive_by_type


def _find_handlers(actor_type: type, message_type: type) -> _Handlers:
    found = []
    for message_class in inspect.getmro(message_type):
        name = "receiveMsg_" + message_class.__name__
        found += [getattr(owner, name) for owner in inspect.getmro(actor_type) if hasattr(owner, name)]
    return tuple(found)
