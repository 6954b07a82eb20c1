"""This node's replica of the metadata log, with its connections to the other voters if there are any.

Owner: the controller, on its thread."""

from __future__ import annotations

import random
from collections.abc import Mapping

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.controller.metadata_feed import QuorumView, Replica, view_of
from streamactors.broker.controller.metadata_log import MetadataLog
from streamactors.broker.network.listener import address as address_text
from streamactors.broker.quorum.quorum import Handler, Quorum
from streamactors.broker.quorum.raft.raft_channels import RaftChannels
from streamactors.broker.quorum.raft.raft_messages import Answer
from streamactors.broker.quorum.raft.raft_wire import Sender
from streamactors.broker.quorum.raft.roles import Timing
from streamactors.broker.runtime import Runtime


class Voter:
    """The replica and its connections."""

    def __init__(self, node: Runtime, dispatcher: Dispatcher, metadata: MetadataLog, handler: Handler) -> None:
        """Raises StorageError if the vote file cannot be read."""
        self._node = node
        self._metadata = metadata
        config = node.config
        voters = config.voters if config.votes_with_others else {}
        metadata.quorum = () if node.voters is None else node.voters.records()
        name = (config.controller_listener_names or "").partition(",")[0].strip()
        own = voters.get(node.node_id)
        sender = Sender(
            node.node_id,
            node.cluster_id,
            node.logs.properties.directory_id,
            None if own is None else (name, *own),
        )
        timeout_ms = config.controller_quorum_request_timeout_ms
        self._channels = RaftChannels(dispatcher, voters, sender, self._answered, timeout_ms, node.to_controllers)
        if voters:
            metadata.finish_installing()
        self.quorum = Quorum(
            dispatcher,
            node.clock.now_ms,
            metadata,
            handler,
            self._channels.send,
            me=node.node_id,
            voters=voters.keys() or {node.node_id},
            timing=Timing(config.controller_quorum_election_timeout_ms, config.controller_quorum_fetch_timeout_ms),
            random=random.Random(),
        )

    def stop(self) -> None:
        """Give up a leadership, and close the connections."""
        self.quorum.stop()
        self._channels.close()

    def view(self, others: Mapping[int, Replica]) -> QuorumView:
        """Describe the quorum; `others` are the nodes that have read this replica's log."""
        node, now_ms = self._node, self._node.clock.wall_ms()
        end_offset = self._metadata.end_offset
        own = Replica(node.node_id, node.logs.properties.directory_id, end_offset, now_ms, now_ms)
        return view_of(self.quorum, own, others, node.voters)

    def _answered(self, voter: int, answer: Answer) -> None:
        self.quorum.answered(voter, answer)


def no_leader(node: Runtime, within_s: float) -> str:
    """Return the text of the error that the quorum has elected nobody in this time."""
    voters = ",".join(f"{voter}@{address_text(*at)}" for voter, at in node.config.voters.items())
    return f"the controllers {voters} have not elected a leader within {within_s:g} s; start a majority of them"
