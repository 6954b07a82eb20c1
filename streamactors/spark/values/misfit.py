"""Misfit: a value that a schema does not allow, with the path of its field."""

from __future__ import annotations

from typing import Any

from streamactors.engine.user_code import shortened


class Misfit(ValueError):
    """A value that does not fit; its text is the sentence of a dead letter: "field 'order.lines[2].price' is 'x', not decimal128(10, 2): …"."""


def misfit(path: str, value: Any, kind: Any, why: object) -> Misfit:
    """Return the error of a value. `why`: a sentence, or the exception of the conversion."""
    return Misfit(f"field '{path}' is {shortened(value, 60)}, not {kind}: {line_of(why)}")


def null(path: str) -> Misfit:
    """Return the error of a null that the schema forbids."""
    return Misfit(f"field '{path}' must not be null")


def line_of(why: object) -> str:
    """Return the first line of a message."""
    return (str(why).splitlines() or [type(why).__name__])[0]
