"""This node's replica of the metadata log, with its connections to the other voters if there are any.

Owner: the controller, on its thread. The voters are those that the log names now, with kraft.version 1, else those of the settings."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from streamactors import __version__
from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.config.broker_config import QUORUM_IN_LOG
from streamactors.broker.config.listeners import controller_spec
from streamactors.broker.controller.metadata_feed import ChangeVoters, DescribeQuorum, QuorumView, Replica, view_of
from streamactors.broker.controller.metadata_log import MetadataLog
from streamactors.broker.controller.rules.feature_rules import UpdateFeatures
from streamactors.broker.errors import ErrorCode
from streamactors.broker.network.listener import address as address_text
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer
from streamactors.broker.network.outgoing.opening import Address
from streamactors.broker.quorum.auto_join import AutoJoin, Wish, wish
from streamactors.broker.quorum.quorum import Quorum
from streamactors.broker.quorum.raft.raft_channels import RaftChannels
from streamactors.broker.quorum.raft.raft_messages import Answer
from streamactors.broker.quorum.raft.raft_wire import Sender
from streamactors.broker.quorum.raft.roles import Timing
from streamactors.broker.quorum.voter_requests import Changed, Update, VoterRequests
from streamactors.broker.quorum.voter_set import KraftVersions, Voter, VoterEndpoint, VoterSet
from streamactors.broker.runtime import Runtime

if TYPE_CHECKING:
    from streamactors.broker.controller.controller import Controller

_API_VERSIONS: Final = (18, 4)
_UPDATE_VOTER: Final = (82, 0)
_KRAFT: Final = "kraft.version"


class OwnReplica:
    """The replica and its connections.

    One class for each kind of quorum: they differ only in who the first voters are. The only voter runs the same elections and commits,
    and has no other node to connect to."""

    def __init__(self, node: Runtime, dispatcher: Dispatcher, metadata: MetadataLog, owner: Controller) -> None:
        """Raises StorageError if the vote file cannot be read."""
        self._node = node
        self._metadata = metadata
        config = node.config
        directory_id = node.logs.properties.directory_id
        spec = controller_spec(config) if config.votes_with_others else None
        endpoint = None if spec is None else (spec.name, spec.advertised_host, spec.advertised_port)
        self._in_log = QUORUM_IN_LOG in config.static
        if config.votes_with_others:
            metadata.finish_installing()
        if node.voters is not None or self._in_log:
            metadata.follow_voters(node.node_id, directory_id)
        else:
            metadata.note_later_voters(node.node_id, directory_id)
        metadata.on_voters = self._use
        # Three kinds of quorums: the log names the voters, the settings name several, or this node is the only voter.
        voters = config.voters if config.votes_with_others and not self._in_log else {}
        alone = set() if voters or self._in_log else {node.node_id}
        acquaintances = [each for each in config.controllers if endpoint is None or each != endpoint[1:]]
        self._channels = RaftChannels(
            dispatcher,
            voters,
            acquaintances if self._in_log else (),
            Sender(node.node_id, node.cluster_id, directory_id, endpoint),
            self._answered,
            config.controller_quorum_request_timeout_ms,
            node.to_controllers,
        )
        self.quorum = Quorum(
            dispatcher,
            node.clock.now_ms,
            metadata,
            owner,
            self._channels.send,
            me=node.node_id,
            voters=voters.keys() | alone,
            timing=Timing(config.controller_quorum_election_timeout_ms, config.controller_quorum_fetch_timeout_ms),
            random=random.Random(),
            acquaintances=self._channels.acquaintances.keys(),
        )
        self.requests = VoterRequests(self.quorum, dispatcher, self._ask_levels, has_channels=config.votes_with_others)
        self._reporting = False
        self._reported_epoch = -1
        self._use(metadata.voter_set)
        self._owner = owner
        self._auto_join: AutoJoin | None = None
        if config.controller_quorum_auto_join_enable:
            period_ms = config.controller_quorum_fetch_timeout_ms
            self._auto_join = AutoJoin(dispatcher, period_ms, self._wish, self._ask_leader)
        self._channels.learned = self._learned

    def stop(self) -> None:
        """Give up a leadership, and close the connections."""
        self.requests.stop()
        if self._auto_join is not None:
            self._auto_join.stop()
        self.quorum.stop()
        self._channels.close()

    def committed(self, high_watermark: int) -> None:
        """The records below this offset are committed."""
        self.requests.committed(high_watermark)
        self._report_address()

    def leader_changed(self) -> None:
        """Another node leads, this one does, or none is known."""
        self.requests.leader_changed()
        self._reporting = False
        if self._auto_join is not None:
            self._auto_join.leader_changed(follows=self.quorum.leader not in (None, self._node.node_id))

    def carry_out(self, command: object, reply: Callable[[Any], object], others: Mapping[int, Replica]) -> bool:
        """Carry out a command about the quorum; `others` are the nodes that have read this replica's log. Return False, and do nothing,
        for any other command."""
        to_data_plane = self._node.data_plane.execute
        match command:
            case DescribeQuorum():
                view = self.view(others)
                to_data_plane(lambda: reply(view))
            case ChangeVoters():
                self.requests.asked(command.request, lambda changed: to_data_plane(lambda: reply(changed)))
            case _:
                return False
        return True

    # --- from kraft.version 0 to 1 ---

    def obstacle(self) -> str | None:
        """Return why the log cannot name its voters; None if it can, or does."""
        return self.requests.obstacle(self.own_entry())

    def upgrades(self, command: UpdateFeatures) -> bool:
        """Whether a command, which is allowed, has the log name its voters from now on."""
        return self._metadata.voter_set is None and command.kraft_level > 0 and not command.validate_only

    def upgrade(self, then: Callable[[Changed], object]) -> None:
        """Have the log name its voters; `then` is called when that is committed."""
        own = self.own_entry()
        assert isinstance(own, Voter)
        self.requests.upgrade(own, then)

    def view(self, others: Mapping[int, Replica]) -> QuorumView:
        """Describe the quorum; `others` are the nodes that have read this replica's log."""
        node, now_ms = self._node, self._node.clock.wall_ms()
        end_offset = self._metadata.end_offset
        own = Replica(node.node_id, node.logs.properties.directory_id, end_offset, now_ms, now_ms)
        return view_of(self.quorum, own, others, node.voters)

    def address_of(self, controller: int | None) -> Address | None:
        """Return where a controller listens, None if that is not known."""
        own = self._channels.sender.endpoint
        if controller == self._node.node_id and own is not None:
            return own[1:]
        return self._channels.address_of(controller)

    def ask(
        self, controller: int, api: tuple[int, int], body: Mapping[str, Any], then: Callable[[ChannelAnswer], object]
    ) -> None:
        """Send a request to another controller; `then` gets the answer."""
        self._channels.ask(controller, api, body, then)

    def _answered(self, voter: int, answer: Answer) -> None:
        self.quorum.answered(voter, answer)

    def _learned(self, voter: int) -> None:
        """The address of another voter is new. If it leads, the broker of this node can ask it now."""
        # A new leader says so to this node, which does not know where it is -> the answer to an earlier question names its address.
        # A leader that writes its own address into the log stays the leader: news of a leader would end its duties and its change.
        if voter == self.quorum.leader and voter != self._node.node_id:
            self._owner.leader_changed(voter, self.quorum.epoch)

    # --- the voters that the log names ---

    def _use(self, voters: VoterSet | None) -> None:
        """The voters, or their addresses, have changed."""
        self._node.voters = voters
        self._channels.folders = {} if voters is None else voters.folders
        if voters is not None:
            self._channels.use(voters.addresses(self._node.to_controllers.listener))

    def _ask_levels(self, voter: Voter, then: Callable[[KraftVersions | None], object]) -> None:
        """Ask a node that may become a voter for the levels of kraft.version that it supports."""

        def answered(answer: ChannelAnswer) -> None:
            if answer.error is not None or answer.value.error_code:
                then(None)
                return
            levels = [each for each in answer.value.supported_features if each.name == _KRAFT]
            then(KraftVersions(levels[0].min_version, levels[0].max_version) if levels else KraftVersions(0, 0))

        body = {"client_software_name": "streamactors", "client_software_version": __version__}
        self._channels.ask_at(voter.address(self._node.to_controllers.listener), _API_VERSIONS, body, answered)

    def _wish(self) -> Wish | None:
        """Return what this controller asks the leader for, if it joins by itself."""
        own = self.own_entry()
        return None if isinstance(own, str) else wish(self._metadata.voter_set, own)

    def _ask_leader(self, wanted: Wish, then: Callable[[ChannelAnswer], object]) -> None:
        leader = self.quorum.leader
        assert leader is not None  # the timer runs only while this node follows one
        body = wanted.body(self._node.cluster_id, self._node.config.controller_quorum_request_timeout_ms)
        self._channels.ask(leader, wanted.api, body, then)

    def _report_address(self) -> None:
        """If the log has another address of this voter, have the leader correct it."""
        named, endpoint = self._metadata.voter_set, self._channels.sender.endpoint
        if named is None:
            self._report_folder()
            return
        before = None if named is None else named.voter(self._node.node_id)
        leader = self.quorum.leader
        if before is None or endpoint is None or leader is None or self._reporting or not endpoint[2]:
            return
        own = Voter(before.node_id, before.directory_id, (VoterEndpoint(*endpoint),))
        if own == before or before.directory_id != self._channels.sender.directory_id:
            return
        self._report(own, leader)

    def _report_folder(self) -> None:
        """The settings name the voters (kraft.version 0): let each leader know the id of this voter's folder, for a later upgrade."""
        own, quorum = self.own_entry(), self.quorum
        leader, epoch = quorum.leader, quorum.epoch
        if leader is None or self._reporting or self._reported_epoch == epoch or isinstance(own, str):
            return
        if self._channels.sender.endpoint is None or leader == self._node.node_id:
            return
        self._report(own, leader)

    def own_entry(self) -> Voter | str:
        """Return this node as the log names its voters, or the reason why it cannot."""
        node_id, directory_id = self._node.node_id, self._node.logs.properties.directory_id
        spec = controller_spec(self._node.config)
        if spec is None or not spec.advertised_port:
            return f"controller {node_id} has no listener with a fixed port for other controllers"
        if directory_id is None:
            return f"the data folder of controller {node_id} has no id"
        return Voter(node_id, directory_id, (VoterEndpoint(spec.name, spec.advertised_host, spec.advertised_port),))

    def _report(self, own: Voter, leader: int) -> None:
        self._reporting = True
        epoch = self.quorum.epoch
        if leader == self._node.node_id:
            self.requests.asked(Update(own, epoch), self._reported)
            return
        (endpoint,) = own.endpoints
        body = {
            "cluster_id": self._node.cluster_id,
            "current_leader_epoch": epoch,
            "voter_id": own.node_id,
            "voter_directory_id": own.directory_id,
            "listeners": [{"name": endpoint.name, "host": endpoint.host, "port": endpoint.port}],
            "k_raft_version_feature": {
                "min_supported_version": own.kraft_versions.lowest,
                "max_supported_version": own.kraft_versions.highest,
            },
        }

        def answered(answer: ChannelAnswer) -> None:
            failed = answer.error is not None or answer.value.error_code
            if not failed:
                self._reported_epoch = epoch
            self._reported(Changed(ErrorCode.REQUEST_TIMED_OUT) if failed else Changed())

        self._channels.ask(leader, _UPDATE_VOTER, body, answered)

    def _reported(self, changed: Changed) -> None:
        self._reporting = False  # after a refusal, the next committed record makes the next attempt


def no_leader(node: Runtime, within_s: float) -> str:
    """Return the message of the error that the quorum has elected no leader in this time."""
    if not node.controllers:
        asked = ",".join(address_text(*at) for at in node.config.controllers)
        return (
            f"no controller at {asked} names a leader within {within_s:g} s, and this one has no vote; start them, or format the folder "
            "with streamactors storage format --standalone or --initial-controllers"
        )
    voters = ",".join(f"{voter}@{address_text(*at)}" for voter, at in node.controllers.items())
    return f"the controllers {voters} have not elected a leader within {within_s:g} s; start a majority of them"
