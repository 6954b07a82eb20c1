"""Has a controller take its voters from its metadata log, where the log names them (kraft.version 1), and not from its settings.

Owner: the server, before it opens the folder. What the log names later, the controller's `OwnReplica` follows. A controller that the log does not name
reads the log without a vote, and can be added to the voters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streamactors.broker.config.broker_config import QUORUM_IN_LOG, BrokerConfig
from streamactors.broker.config.listeners import controller_spec
from streamactors.broker.errors import BrokerError, BrokerStartError
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.folders.meta_properties import FILE_NAME as META_PROPERTIES
from streamactors.broker.log.folders.meta_properties import decode_properties
from streamactors.broker.metadata.topic_name import METADATA_TOPIC
from streamactors.broker.network.listener import address as address_text
from streamactors.broker.protocol.record_schema import CorruptRecord
from streamactors.broker.quorum.stored_voters import last_electors, snapshot_voters, stored_voters
from streamactors.broker.quorum.vote_file import read_election
from streamactors.broker.quorum.voter_set import VoterSet

METADATA_FOLDER: Final = f"{METADATA_TOPIC}-0"


def voters_of_folder(folder: Path, *, whole: bool = True, disk: Disk | None = None) -> VoterSet | None:
    """Return the voters that the metadata log of a data folder names, None if it names none. Raises BrokerStartError.

    Without `whole`, only its newest snapshot is read."""
    log = folder / METADATA_FOLDER
    read = stored_voters if whole else snapshot_voters
    try:
        return read(disk or Disk(), log)
    except OSError as error:
        raise BrokerStartError(
            f"cannot use the data folder {folder}: {error.strerror or error}; choose another with --data"
        ) from error
    except (BrokerError, CorruptRecord) as error:
        raise BrokerStartError(f"the voters in {log} cannot be read: {error}") from error


def with_stored_voters(config: BrokerConfig, folder: Path, disk: Disk | None) -> tuple[BrokerConfig, VoterSet | None]:
    """Return the settings of a controller with the voters of its log, and these voters; unchanged settings if the log names none.

    Raises BrokerStartError if this node has no vote, and knows no other controller, or if others have voted for the leaders of its log."""
    if config.is_member:
        return config, None
    bootstrap, listens = config.controller_quorum_bootstrap_servers, bool(config.controller_listener_names)
    several = bool(config.controller_quorum_voters or bootstrap or listens)
    voters = voters_of_folder(folder, whole=several, disk=disk)
    if voters is None:
        if config.controller_quorum_voters:
            return config, None
        if _is_alone(config):
            _refuse_the_log_of_others(folder, disk or Disk())
            return config, None
        return _with(config, {QUORUM_IN_LOG: "true"}), None
    knows_others = bool(bootstrap or config.controller_quorum_voters) and listens
    if voters.voter(config.effective_node_id) is None and not knows_others:
        raise BrokerStartError(
            f"controller {config.effective_node_id} has no vote in the quorum of {folder}, whose voters are {voters}; "
            "start it with process.roles=broker, or name the others in controller.quorum.bootstrap.servers, and its own listener in "
            "controller.listener.names"
        )
    listener = (config.controller_listener_names or "").partition(",")[0].strip()
    named = ",".join(f"{each.node_id}@{address_text(*each.address(listener))}" for each in voters.voters)
    marks = {QUORUM_IN_LOG: "true"} if listens else {}
    return _with(config, {"controller.quorum.voters": named, **marks}), voters


def _refuse_the_log_of_others(folder: Path, disk: Disk) -> None:
    """Raise BrokerStartError if the last leader of the log was elected by other controllers, too, or if this node has voted for another one.

    Alone it leads a later epoch -> the others follow it when they are back -> topics that they have acknowledged without it are deleted."""
    try:
        own = decode_properties(disk.read(folder / META_PROPERTIES)).node_id
        electors = last_electors(disk, folder / METADATA_FOLDER)
        if not electors:  # a snapshot has taken the place of the log
            vote = read_election(disk, folder / METADATA_FOLDER)
            electors = frozenset(each for each in (vote.leader, vote.voted) if each is not None)
    except (OSError, ValueError):
        return  # a new folder, or one that is refused when it is opened
    others = ", ".join(map(str, sorted(electors - {own})))
    if others:
        raise BrokerStartError(
            f"the data folder {folder} is of node {own} in a cluster with other controllers ({others}); alone, it would "
            "change the metadata without them. Start it with the settings of that cluster (controller.quorum.voters, or process.roles=broker), "
            f"with streamactors cluster --data {folder.parent} if that has made the folder, or choose another folder with --data"
        )


def _with(config: BrokerConfig, more: Mapping[str, str]) -> BrokerConfig:
    return BrokerConfig({**config.static, **more}, {}, {}, config.without_effect)


def _is_alone(config: BrokerConfig) -> bool:
    """Whether no other controller is named: a broker whose only controller it is itself."""
    if not config.is_broker:
        return False
    spec = None if not config.controller_listener_names else controller_spec(config)
    own = set() if spec is None else {(spec.host, spec.port), (spec.advertised_host, spec.advertised_port)}
    others = [each for each in config.controllers if each not in own]
    return not others or (spec is None and len(others) == 1)
