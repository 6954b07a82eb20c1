"""`streamactors asyncapi`: the AsyncAPI document of a graph."""

from __future__ import annotations

import json
from typing import Any

import click

from streamactors.cli.graphs.graph_module import graph_argument, load_graph
from streamactors.dsl.named import load_named


@click.command("asyncapi")
@graph_argument
@click.option("--title", default="streams", show_default=True, help="The name of the application.")
@click.option("--api-version", default="1.0.0", show_default=True, help="The version of the application.")
@click.option(
    "--writes",
    multiple=True,
    metavar="TOPIC=TYPE",
    help="A topic that the graph writes, and the type of its values: json, string, …, or MODULE:CLASS. May be repeated.",
)
def command(graph: str, title: str, api_version: str, writes: tuple[str, ...]) -> None:
    """Print the AsyncAPI 3 document of a graph, as JSON: its topics, and the schemas of typed records. Nothing is run, and no broker is asked.

    MODULE is a module's name or the path of a .py file, GRAPH a runnable graph in it or a function of no arguments that
    returns one. Topics of sinks that learn them from records are named with --writes.

    \b
    Example:
      streamactors asyncapi my_streams:graph --title orders --writes totals=my_streams:Total > asyncapi.json
    """
    from streamactors.kafka.async_api import asyncapi

    named: dict[str, Any] = {}
    for each in writes:
        topic, equals, kind = each.partition("=")
        if not (topic and equals and kind):
            raise click.UsageError(f"--writes {each}: write TOPIC=TYPE, as in totals=json or totals=my_streams:Total")
        named[topic] = load_named(kind, type, "MODULE:CLASS") if ":" in kind else kind
    document = asyncapi(load_graph(graph), title=title, version=api_version, writes=named or None)
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
