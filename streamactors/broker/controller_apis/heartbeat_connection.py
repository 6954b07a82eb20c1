"""Notices that the heartbeat connection of a broker is closed, and has the broker fenced if its process has ended.

Owner: the data plane."""

from __future__ import annotations

from streamactors.broker.controller.cluster_command import ProcessEnded
from streamactors.broker.controller.ended_process import when_ended
from streamactors.broker.node import Node
from streamactors.broker.requests.request import Request


class HeartbeatConnection:
    """The broker that sends its heartbeats over one connection. `force_complete` is called when the connection ends."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.broker_id = self.broker_epoch = -1

    def force_complete(self) -> bool:
        """Check whether the broker's process has ended, and have the broker fenced if so."""
        node = self._node
        broker = node.metadata.image.brokers.get(self.broker_id)
        if broker is not None and not broker.fenced and broker.broker_epoch == self.broker_epoch:
            command = ProcessEnded(self.broker_id, self.broker_epoch)
            when_ended(node.helpers, broker, lambda: node.controller.submit(command, lambda _: None))
        return True


def watch(request: Request, broker_id: int, broker_epoch: int) -> None:
    """Remember whose heartbeats come over the connection of a request."""
    unfinished = request.connection.unfinished
    for each in unfinished:
        if isinstance(each, HeartbeatConnection):
            each.broker_id, each.broker_epoch = broker_id, broker_epoch
            return
    made = HeartbeatConnection(request.node)
    made.broker_id, made.broker_epoch = broker_id, broker_epoch
    unfinished.add(made)
