"""`streamactors check`: whether a graph could run, without running it."""

from __future__ import annotations

import click

from streamactors.cli.graphs.graph_module import graph_argument, load_graph


@click.command("check")
@graph_argument
def command(graph: str) -> None:
    """Check that a graph is whole, that its progress can be followed to where it is needed, and that its brokers answer and have
    its topics. Nothing is run, read or written.

    MODULE is a module's name or the path of a .py file, GRAPH a runnable graph in it or a function of no arguments that
    returns one. Exit code: 0 it could run, 1 it could not, with one line that says why and what to do; 2 there is no such graph.

    \b
    Examples:
      streamactors check my_streams:graph
      streamactors check my_streams.py:graph && streamactors run my_streams.py:graph
    """
    from streamactors.cli.graphs.preflight import preflight

    for line in preflight(load_graph(graph)):
        click.echo(line)
