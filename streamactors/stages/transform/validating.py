"""validate: an element for which a function raises becomes a FailedElement, which the operator sends to the dead letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.user_code import blame, shortened
from streamactors.errors import BuildError
from streamactors.stages.checks import plain_function
from streamactors.stages.errors.failed_element import FailedElement
from streamactors.stages.errors.recovering import On, failures
from streamactors.stages.transform.mapping import Map


class Validate(Map[Any, Any]):
    """The first stage of `Source.validate`; the second one diverts."""

    name = "validate"

    def __init__(self, fn: Callable[[Any], Any], on: On = Exception) -> None:
        plain_function("validate", fn, "map_async and divert_if")
        invalid = failures("validate", on)

        def checked(element: Any) -> Any:
            try:
                result = fn(element)
            except Exception as error:
                blame(error, "validate", element, fn)
                if invalid(error):
                    return FailedElement(element, error, 1, "validate")
                raise
            if type(result) is bool:
                raise TypeError(
                    f"validate: the function returned {result} for {shortened(element, 80)}; it must raise for an invalid element, and return "
                    "the element to emit or None; for a predicate write divert_if(predicate, sink)"
                )
            return element if result is None else result

        super().__init__(checked)


def dead_letters_or_error(operator: str, sink: Any) -> Any:
    """Return `sink` if it is a part of a graph. Raises BuildError naming what was given; `_fan_out` checks its shape."""
    if not hasattr(sink, "module"):
        raise BuildError(
            f"{operator}: dead_letters must be a sink of FailedElement, such as Producer.dead_letter_sink(settings, topic), got "
            f"{type(sink).__name__} {shortened(sink, 60)}"
        )
    return sink
