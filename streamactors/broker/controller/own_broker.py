"""The broker of a node whose controller leads its cluster: it is registered before it serves, and hands over its leaderships before it stops.

Owner: the server, on the thread that starts and stops the broker; it waits for the controller's thread."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

from streamactors.broker.controller.command import PlannedChange
from streamactors.broker.controller.rules.election_rules import with_broker, without_broker
from streamactors.broker.controller.rules.folder_rules import FIRST_WITH_CORDONED
from streamactors.broker.controller.rules.registration import own_registration
from streamactors.broker.controller.rules.release_levels import first_features
from streamactors.broker.errors import StorageError
from streamactors.broker.metadata.image import METADATA_VERSION, NO_LEADER
from streamactors.broker.metadata.metadata_record import BrokerRegistration, Endpoint, FeatureLevel, MetadataRecord
from streamactors.broker.replication.lease_state import ALWAYS

if TYPE_CHECKING:
    from streamactors.broker.controller.controller import Controller
    from streamactors.broker.runtime import Runtime

T = TypeVar("T")

_log = logging.getLogger("streamactors.broker.controller")

LEAVE_WITHIN_S: Final = 2.0
LEAVE_POLL_S: Final = 0.01


class OwnBroker:
    """The membership of this broker, whose controller is the only one. `leads_others`: other brokers may join."""

    def __init__(self, node: Runtime, controller: Controller, *, leads_others: bool) -> None:
        self._node = node
        self._controller = controller
        self._leads_others = leads_others

    @property
    def broker_epoch(self) -> int:
        """The epoch of the current registration, -1 before it."""
        broker = self._node.metadata.image.brokers.get(self._node.node_id)
        return -1 if broker is None else broker.broker_epoch

    @property
    def lease_end_ms(self) -> float:
        """The only controller elects no leader without this broker's knowledge."""
        return ALWAYS

    def register(self, endpoints: Iterable[Endpoint]) -> None:
        """Register this broker with its listeners, and elect it as a leader where possible. Blocks; called before serving."""
        node, metadata = self._node, self._controller.metadata
        folders = node.logs.folders
        newest = self._controller.newest
        first = first_features(metadata.bootstrap(), node.config.min_insync_replicas)
        begins = {each.name: each.level for each in first if isinstance(each, FeatureLevel)}
        level = newest.features.get(METADATA_VERSION, begins[METADATA_VERSION])
        broker = BrokerRegistration(
            broker_id=node.node_id,
            incarnation_id=uuid.uuid4(),
            broker_epoch=metadata.end_offset,
            endpoints=tuple(endpoints),
            rack=node.config.broker_rack,
            log_dirs=folders.ids if self._leads_others or len(folders.all) > 1 else (),
            cordoned=folders.cordoned_ids if level >= FIRST_WITH_CORDONED else None,
        )
        self._append(
            own_registration(
                newest,
                broker,
                was_clean=node.logs.was_clean,
                leads_others=self._leads_others,
                first=first,
            )
        )
        if self._leads_others:
            self._append(list(with_broker(self._controller.newest, node.node_id, lambda _: False)))
        self._controller.call(self._controller.begin_duties)

    def _append(self, records: list[MetadataRecord]) -> None:
        """Commit and publish records of the start. Blocks."""
        done: Future[Any] = Future()
        self._controller.call(lambda: self._controller.write(PlannedChange(records, None), done.set_result))
        done.result()

    def leave(self, within_s: float) -> None:
        """Move the leaderships of this broker to others, before it stops and its cluster has no controller. Blocks until every other broker knows it, or
        for `within_s`, at most LEAVE_WITHIN_S."""
        controller = self._controller
        try:
            controller.call(lambda: controller.in_turn(self._hand_over))
        except StorageError as error:
            _log.warning("the leaderships of this broker were not moved: %s", error)
            return
        give_up = time.monotonic() + min(within_s, LEAVE_WITHIN_S)
        while not controller.call(controller.known_to_all) and time.monotonic() < give_up:
            time.sleep(LEAVE_POLL_S)

    def _hand_over(self) -> None:
        moved = without_broker(self._controller.newest, self._node.node_id, lambda _: False)
        changes: list[MetadataRecord] = [each for each in moved if each.leader != NO_LEADER]
        if changes:
            self._controller.write(PlannedChange(changes, None), lambda _: None)
