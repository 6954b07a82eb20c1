"""Docstrings of operators. The contract (when an operator emits, back-pressures and ends) is written once: in the docstring of its stage.

A method without a docstring gets the stage's. A method with a docstring keeps it as the description and gets the contract (the lines
from "Emits when" on) from the stage, unless it has a contract of its own. Editors, `help()` and docs/operators show the result."""

from __future__ import annotations

import inspect
import re
from types import FunctionType

from streamactors.engine.stage import GraphStage

_CONTRACT = re.compile(
    r"^ *(?:(?:Emits|Backpressures|Completes|Cancels|Fails) when|Materializes|Supervision|Marks):", re.MULTILINE
)


def document(mixin: type) -> None:
    """Complete the docstrings of a mix-in's public methods from their stages."""
    for name, member in vars(mixin).items():
        function = getattr(member, "__func__", member)
        if isinstance(function, FunctionType) and not name.startswith("_"):
            stage = stage_of(function)
            if stage is not None and stage.__doc__:
                function.__doc__ = _completed(function.__doc__, inspect.cleandoc(stage.__doc__))


def stage_of(function: FunctionType) -> type[GraphStage] | None:
    """Return the stage class that the function's body names first, None when it names none."""
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, type) and issubclass(value, GraphStage):
            return value
    return None


def _completed(own: str | None, stages: str) -> str:
    if not own:
        return stages
    contract = _CONTRACT.search(stages)
    if contract is None or _CONTRACT.search(own):
        return own
    return f"{inspect.cleandoc(own)}\n\n{stages[contract.start() :]}"
