"""The broker of a node whose controller leads its cluster: it is registered before it serves, and hands over its leaderships before it stops.

Owner: the controller. Called on the server's thread, which waits for the controller's."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Protocol

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.broker.controller.change import Reply
from streamactors.broker.controller.command import Plan
from streamactors.broker.controller.metadata_log import MetadataLog
from streamactors.broker.controller.rules.election_rules import with_broker, without_broker
from streamactors.broker.controller.rules.feature_rules import first_features
from streamactors.broker.controller.rules.registration import own_registration
from streamactors.broker.errors import BrokerStartError, StorageError
from streamactors.broker.helpers import call_on
from streamactors.broker.metadata.image import NO_LEADER, MetadataImage
from streamactors.broker.metadata.metadata_record import BrokerRegistration, Endpoint, MetadataRecord

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime

_log = logging.getLogger("streamactors.broker.controller")

LEAVE_WITHIN_S: Final = 2.0
LEAVE_POLL_S: Final = 0.01


class Writer(Protocol):
    """The part of the controller that this uses; the methods on its thread."""

    @property
    def newest(self) -> MetadataImage: ...

    def in_turn(self, call: Callable[[], object]) -> None: ...

    def write(self, made: Plan, reply: Reply) -> None: ...


class OwnBroker:
    """The broker of the controller's own node. `leads_others`: other brokers may join."""

    def __init__(self, node: Runtime, dispatcher: Dispatcher, writer: Writer, *, leads_others: bool) -> None:
        self._node = node
        self._dispatcher = dispatcher
        self._writer = writer
        self._leads_others = leads_others

    def check_identity(self) -> None:
        """Raise BrokerStartError if the data folder is that of another node."""
        config, node_id = self._node.config, self._node.node_id
        asked = config.effective_node_id
        if asked != node_id and config.static.keys() & {"node.id", "broker.id"}:
            raise BrokerStartError(
                f"the data folder {self._node.logs.folder} is of node {node_id}, and node.id={asked}; "
                f"start with node.id={node_id}, or with another --data folder"
            )

    def register(self, endpoints: Iterable[Endpoint], metadata: MetadataLog) -> None:
        """Register this broker with its listeners, and elect it as a leader where possible. Blocks."""
        node = self._node
        folders = node.logs.folders
        broker = BrokerRegistration(
            broker_id=node.node_id,
            incarnation_id=uuid.uuid4(),
            broker_epoch=metadata.end_offset,
            endpoints=tuple(endpoints),
            rack=node.config.broker_rack,
            log_dirs=folders.ids if self._leads_others or len(folders.all) > 1 else (),
        )
        self._append(
            own_registration(
                self._writer.newest,
                broker,
                was_clean=node.logs.was_clean,
                leads_others=self._leads_others,
                first=first_features(metadata.bootstrap(), node.config.min_insync_replicas),
            )
        )
        if self._leads_others:
            self._append(list(with_broker(self._writer.newest, node.node_id, lambda _: False)))

    def _append(self, records: list[MetadataRecord]) -> None:
        """Commit and publish records of the start. Blocks."""
        done: Future[Any] = Future()
        call_on(self._dispatcher, lambda: self._writer.write(Plan(records, None), done.set_result))
        done.result()

    def leave(self, known_to_all: Callable[[], bool]) -> None:
        """Move the leaderships of this broker to others, before it stops and its cluster has no controller. Blocks until `known_to_all`, asked on the
        controller's thread, or for LEAVE_WITHIN_S."""
        try:
            call_on(self._dispatcher, lambda: self._writer.in_turn(self._hand_over))
        except StorageError as error:
            _log.warning("the leaderships of this broker stay with it: %s", error)
            return
        give_up = time.monotonic() + LEAVE_WITHIN_S
        while not call_on(self._dispatcher, known_to_all) and time.monotonic() < give_up:
            time.sleep(LEAVE_POLL_S)

    def _hand_over(self) -> None:
        moved = without_broker(self._writer.newest, self._node.node_id, lambda _: False)
        changes: list[MetadataRecord] = [each for each in moved if each.leader != NO_LEADER]
        if changes:
            self._writer.write(Plan(changes, None), lambda _: None)
