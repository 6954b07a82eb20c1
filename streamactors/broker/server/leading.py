"""Makes the parts of a node that is a broker and the controller of other brokers: the node replicates, and asks its own controller.

Owner: the server. Imported only by such a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from streamactors.broker.controller_apis.api56_alter_partition import body_of, command_of
from streamactors.broker.helpers import call_on
from streamactors.broker.network.outgoing.channel import ChannelAnswer
from streamactors.broker.node import Node
from streamactors.broker.protocol.messages import decode_request, decode_response, encode_request, encode_response
from streamactors.broker.replication.isr_publisher import ALTER_PARTITION, AnswerLike
from streamactors.broker.replication.lease_state import ALWAYS
from streamactors.broker.replication.replicas import Replicas


class OwnController:
    """The way from a broker to the controller in its own process, in the place of `membership.Member`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def broker_epoch(self) -> int:
        """The epoch of the current registration, -1 before it."""
        broker = self._node.metadata.image.brokers.get(self._node.node_id)
        return -1 if broker is None else broker.broker_epoch

    @property
    def lease_end_ms(self) -> float:
        """The only controller elects no leader without this broker's knowledge."""
        return ALWAYS

    def ask(self, api: tuple[int, int], body: Mapping[str, Any], then: Callable[[AnswerLike], object]) -> None:
        """Carry out an AlterPartition request; `then` gets the answer on the data plane's thread."""
        assert api == ALTER_PARTITION
        message = decode_request(*api, memoryview(encode_request(*api, body)))

        def altered(answer: Any) -> None:
            response = encode_response(*api, body_of(message, answer))
            then(ChannelAnswer(decode_response(*api, memoryview(response))))

        self._node.controller.submit(command_of(message, api[1]), altered)


class Leading:
    """The replication of such a node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._replicas = Replicas(node, node.partitions, OwnController(node))
        node.replication = self._replicas
        call_on(node.data_plane, self._replicas.start)

    def stop(self) -> None:
        """End the fetchers."""
        call_on(self._node.data_plane, self._replicas.stop)
