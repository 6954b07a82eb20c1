"""The addresses of the nodes that have a vote on the metadata log, as answers to other nodes name them."""

from __future__ import annotations

from typing import Any

from streamactors.broker.node import Node


def node_endpoints(node: Node, *wanted: int) -> list[dict[str, Any]]:
    """Return the addresses of these voters, as far as they are known."""
    voters = dict(node.controllers)
    listener = node.controller_listener
    if listener is not None:
        voters[node.node_id] = listener.advertised_host, listener.advertised_port
    return [{"node_id": each, "host": voters[each][0], "port": voters[each][1]} for each in wanted if each in voters]
