"""The parts of a topology (streams, groups, tables), and what their steps do on a chain.

A step adds nodes to the topology of its part. A chain has one input, and each of its parts is a value that may be continued in several ways;
so a step of a chain makes a copy of it first: it takes all steps again on a new chain. Names and old values depend on the steps above alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from streamactors.windows.topology.model import Topology


class Part:
    """A stream, groups or a table of a topology. `again`: makes an equal part of a new chain; only parts of chains have it."""

    topology: Topology
    again: Callable[[], Any]


P = ParamSpec("P")
T = TypeVar("T", bound=Part)
R = TypeVar("R")


def step(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Have a method that adds nodes work on a copy of the chain, where its part belongs to one."""

    @wraps(method)
    def take(part: T, /, *args: P.args, **options: P.kwargs) -> R:
        if part.topology.is_open:
            return method(part, *args, **options)

        def again() -> R:
            copy = part.again()
            topology = copy.topology
            topology.is_open = True
            try:
                return method(copy, *args, **options)
            finally:
                topology.is_open = False

        result = again()
        if isinstance(result, Part):
            result.again = again
        return result

    return take
