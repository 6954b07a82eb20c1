"""Has a controller take its voters from its metadata log, where the log names them (kraft.version 1), and not from its settings.

Owner: the server, before it opens the folder. The voters are read once: a node whose quorum gets other voters is started again."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.errors import BrokerError, BrokerStartError
from streamactors.broker.log.disk import Disk
from streamactors.broker.metadata.topic_name import METADATA_TOPIC
from streamactors.broker.network.listener import address as address_text
from streamactors.broker.protocol.record_schema import CorruptRecord
from streamactors.broker.quorum.stored_voters import snapshot_voters, stored_voters
from streamactors.broker.quorum.voter_set import VoterSet

METADATA_FOLDER: Final = f"{METADATA_TOPIC}-0"


def voters_of_folder(folder: Path, *, whole: bool = True, disk: Disk | None = None) -> VoterSet | None:
    """Return the voters that the metadata log of a data folder names, None if it names none. Raises BrokerStartError.

    Without `whole`, only its newest snapshot is read."""
    log = folder / METADATA_FOLDER
    read = stored_voters if whole else snapshot_voters
    try:
        return read(disk or Disk(), log)
    except (OSError, BrokerError, CorruptRecord) as error:
        raise BrokerStartError(f"the voters in {log} cannot be read: {error}") from error


def with_stored_voters(config: BrokerConfig, folder: Path, disk: Disk | None) -> tuple[BrokerConfig, VoterSet | None]:
    """Return the settings of a controller with the voters of its log, and these voters; unchanged settings if the log names none.

    Raises BrokerStartError if this node has no vote."""
    if config.is_member:
        return config, None
    several = bool(config.controller_quorum_voters or config.controller_quorum_bootstrap_servers)
    voters = voters_of_folder(folder, whole=several, disk=disk)
    if voters is None:
        _check_settings(config, folder)
        return config, None
    own = voters.voter(config.effective_node_id)
    if own is None:
        raise BrokerStartError(
            f"controller {config.effective_node_id} has no vote in the quorum of {folder}, whose voters are {voters}; "
            "start it with process.roles=broker, or format a new folder with --standalone or --initial-controllers"
        )
    listener = (config.controller_listener_names or "").partition(",")[0].strip()
    named = ",".join(f"{each.node_id}@{address_text(*each.address(listener))}" for each in voters.voters)
    static = {**config.static, "controller.quorum.voters": named}
    return BrokerConfig(static, {}, {}, config.without_effect), voters


def _check_settings(config: BrokerConfig, folder: Path) -> None:
    """Refuse a controller that knows others, and not whether they have votes."""
    if config.controller_quorum_voters or (len(config.controller_quorum_bootstrap_servers) < 2 and config.is_broker):
        return
    raise BrokerStartError(
        f"{folder} names no voters, and controller.quorum.voters is not set; format the folder with "
        "streamactors storage format --standalone or --initial-controllers, or set "
        "controller.quorum.voters=1@host:port,2@host:port,3@host:port"
    )
