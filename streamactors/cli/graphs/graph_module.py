"""MODULE:GRAPH, as `run`, `graph` and `check` take it: a runnable graph, or a function of no arguments that returns one."""

from __future__ import annotations

from typing import Any, Final

import click

from streamactors.dsl.named import GraphNotFound, load_named
from streamactors.dsl.runnable import RunnableGraph

FORM: Final = "MODULE:GRAPH, as in my_streams:graph or my_streams.py:graph"

graph_argument = click.argument("graph", metavar="MODULE:GRAPH")


def load_graph(text: str) -> RunnableGraph[Any]:
    """Return the graph that `text` names. Raises GraphNotFound or GraphFailed, each in one sentence."""
    found = load_named(text, RunnableGraph, FORM)
    if not isinstance(found, RunnableGraph):
        kind = type(found).__name__
        advice = "connect it to a sink" if kind in ("Source", "SubFlow") else "give source.to(sink)"
        raise GraphNotFound(f"{text} is a {kind}, not a runnable graph; {advice}")
    return found
