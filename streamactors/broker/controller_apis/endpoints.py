"""The address of the active controller, as answers to other nodes name it."""

from __future__ import annotations

from typing import Any

from streamactors.broker.node import Node


def node_endpoints(node: Node) -> list[dict[str, Any]]:
    """Return the endpoints of the leader of the metadata log, which is this node."""
    listener = node.controller_listener
    if listener is None:
        return []
    return [{"node_id": node.node_id, "host": listener.advertised_host, "port": listener.advertised_port, "rack": None}]
