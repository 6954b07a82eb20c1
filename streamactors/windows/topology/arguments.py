"""The check of a user's function when a topology is built: it can be called with the arguments that the step gives it."""

from __future__ import annotations

import inspect

from streamactors.errors import BuildError


def takes_arguments(where: str, fn: object, *names: str) -> None:
    """Raise BuildError if `fn` cannot be called with so many arguments. A function that does not tell its parameters passes."""
    try:
        signature = inspect.signature(fn)  # type: ignore[arg-type]  # what is no function has been refused
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*names)
    except TypeError:
        code = getattr(fn, "__code__", None)
        at = "" if code is None else f" at {code.co_filename}:{code.co_firstlineno}"
        raise BuildError(
            f"{where} calls fn({', '.join(names)}), and {getattr(fn, '__name__', type(fn).__name__)}{signature}{at} does not take that"
        ) from None
