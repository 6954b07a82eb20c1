"""Making an instance of an actor class by Thespian's rules: class names, capabilities, requirements."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable
from typing import Any, Final

from thespian.actors import Actor, InvalidActorSpecification, NoCompatibleSystemForActor
from thespian.system.utilis import actualActorClass

_ARGUMENTS: Final = ("capabilities", "requirements")


def maker_of(
    actor_class: Any, requirements: dict[str, Any] | None, capabilities: dict[str, Any], system_name: str
) -> Callable[[], Actor]:
    """Return a function that makes an instance of a class, or of the class of that full name.

    The function passes `capabilities` and `requirements` if `__init__` names them. Raises InvalidActorSpecification when
    the class is no actor class. The returned function raises NoCompatibleSystemForActor when the class's own check of the
    capabilities fails.
    """
    kind = actualActorClass(actor_class)
    if not (isinstance(kind, type) and issubclass(kind, Actor)):
        raise InvalidActorSpecification(actor_class, "it is not an actor class")
    given = {"capabilities": capabilities, "requirements": requirements}
    arguments = {name: given[name] for name in _named_arguments(kind)}

    def make() -> Actor:
        check = getattr(kind, "actorSystemCapabilityCheck", None)
        if check is not None and not check(capabilities, requirements or {}):
            raise NoCompatibleSystemForActor(kind, f"the capabilities of actor system {system_name!r} do not suffice")
        return kind(**arguments)

    return make


@functools.cache
def _named_arguments(kind: Hashable) -> tuple[str, ...]:
    """Return those of the system's arguments that the class's `__init__` names."""
    try:
        parameters = inspect.signature(kind.__init__).parameters  # type: ignore[misc]
    except (TypeError, ValueError):
        return ()
    return tuple(name for name in _ARGUMENTS if name in parameters)
