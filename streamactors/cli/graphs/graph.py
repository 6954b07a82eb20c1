"""`streamactors graph`: a graph's picture, as Mermaid."""

from __future__ import annotations

import click

from streamactors.cli.graphs.graph_module import graph_argument, load_graph


@click.command("graph")
@graph_argument
def command(graph: str) -> None:
    """Print a graph as a Mermaid flowchart: its stages as they will run, in their islands. Nothing is run.

    MODULE is a module's name or the path of a .py file, GRAPH a runnable graph in it or a function of no arguments that
    returns one.

    \b
    Example:
      streamactors graph my_streams:graph > graph.mmd
    """
    click.echo(load_graph(graph).to_mermaid(), nl=False)
