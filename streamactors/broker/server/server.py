"""The server: makes one broker from its parts, starts it and stops it.

Order of the start: logs (lock, recovery), controller (reads the metadata, hosts partitions), listeners bound, this broker
registered, coordinators; then the first connection is accepted. The stop has the reverse order. A member of a cluster is unfenced
last and leaves the cluster first, while it still serves."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamactors.actors.cell import Cell
from streamactors.actors.dispatching.dispatcher import Dispatcher, DispatcherStopped
from streamactors.broker import apis, controller_apis
from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.listeners import (
    ListenerSpec,
    controller_listener,
    controller_spec,
    inter_broker_listener,
    listener_specs,
)
from streamactors.broker.controller.command import Command, Outcome
from streamactors.broker.errors import BrokerStartError, ErrorCode, StorageError
from streamactors.broker.group.groups import Groups
from streamactors.broker.helpers import call_on
from streamactors.broker.log.config import LogConfig, ManagerConfig
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.flusher import Flushed, FlushPool
from streamactors.broker.log.folders.meta_properties import FILE_NAME as META_PROPERTIES
from streamactors.broker.log.manager import LogManager
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import Endpoint
from streamactors.broker.network.acceptor import Acceptor
from streamactors.broker.network.descriptor_reserve import DescriptorReserve
from streamactors.broker.network.limits import Limits
from streamactors.broker.network.network_actors import (
    AcceptorActor,
    Adopt,
    ProcessorActor,
    StartServing,
    StopServing,
    spawn,
)
from streamactors.broker.network.outgoing.channel_maker import ChannelMaker
from streamactors.broker.network.processor import Processor
from streamactors.broker.node import Node
from streamactors.broker.producer_ids import ProducerIds
from streamactors.broker.quotas.charging import Charging
from streamactors.broker.quotas.client_quotas import ClientQuotas
from streamactors.broker.replication.partition_table import PartitionTable
from streamactors.broker.requests.api import Routes
from streamactors.broker.requests.dispatch import Dispatch
from streamactors.broker.security.protection import OPEN, Protection, SecurityProtocol, idle_settings, protection_of
from streamactors.broker.server.cluster_part import ClusterPart, cluster_part
from streamactors.broker.server.folder_failures import FolderFailures
from streamactors.broker.server.log_housekeeping import LogHousekeeping
from streamactors.broker.server.shortages import Shortages
from streamactors.broker.server.stored_quorum import with_stored_voters
from streamactors.broker.share.fetching.share_partitions import SharePartitions
from streamactors.broker.share.state.share_states import ShareStates
from streamactors.broker.transaction.transactions import Transactions
from streamactors.clock import Clock, SystemClock

if TYPE_CHECKING:
    from streamactors.broker.server.internals import Internals

_log = logging.getLogger("streamactors.broker")

_STOP_SECONDS: Final = 5.0
LEAVE_WITHIN_S: Final = 60.0
LEAVE_AFTER_FAULT_S: Final = 2.0


class Broker:
    """One broker. `start` returns when it accepts connections; after `stop` no thread, socket or file is open."""

    def __init__(
        self,
        config: BrokerConfig,
        data_folder: Path,
        clock: Clock | None = None,
        *,
        disk: Disk | None = None,
        first: Sequence[Command] = (),
    ) -> None:
        """`first` are commands that the controller carries out before a listener accepts connections."""
        self._first = first
        self.config, voters = with_stored_voters(config, data_folder, disk)
        self._clock = clock if clock is not None else SystemClock()
        self._folder = data_folder
        self._disk = disk
        self._stopped = False
        self._life = threading.Lock()
        name = f"broker-{config.effective_node_id}"
        self._data_plane = Dispatcher(name, self._clock)
        self.routes = Routes.of_package(apis)
        for_controllers = Routes.of_package(controller_apis, beside=self.routes)
        self.node = Node(self.config, self._data_plane, self.routes, for_controllers)
        self.node.voters = voters
        self._undo: list[Callable[[], object]] = []
        self._resume: Callable[[], object] = lambda: None
        self.failures = FolderFailures(self.node, self.stop)
        self._shortages = Shortages(self.node)
        self.node.on_fault = self.failures.end

    @cached_property
    def internals(self) -> Internals:
        """What only the broker itself knows, for a page about the cluster; when the data folder is open."""
        from streamactors.broker.server.internals import Internals  # only where somebody looks

        return Internals(self.node)

    def start(self) -> Broker:
        """Open the data folder, read the metadata, listen. If this raises BrokerStartError, the parts are stopped again."""
        for name, because in self.config.without_effect.items():
            _log.warning("%s has no effect: %s", name, because)
        for name, because in idle_settings(self.config).items():
            _log.warning("%s has no effect: %s", name, because)
        try:
            self._start()
        except StorageError as error:
            self.stop()
            raise BrokerStartError(
                f"cannot use the data folder {self._folder}: {error}; repair it, or choose another with --data"
            ) from error
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop accepting, close connections, stop the parts, flush and unlock the logs. Further calls do nothing.

        An interrupt, such as a KeyboardInterrupt, is raised when every part has been stopped."""
        interrupt: BaseException | None = None
        with self._life:
            if self._stopped:
                return
            self._stopped = True
            while self._undo:
                undo = self._undo.pop()
                try:
                    undo()
                except Exception:  # noqa: BLE001 - logged; the other parts must be stopped
                    _log.exception("stopping the broker: %s failed", getattr(undo, "__qualname__", undo))
                except BaseException as error:  # noqa: BLE001 - raised below; no later call would stop the other parts
                    interrupt = error
        if interrupt is not None:
            raise interrupt

    def _start(self) -> None:
        node = self.node
        spec = controller_spec(self.config)
        if self.config.is_one_of_several or spec is not None:
            self._enter_others()
        self._undo.append(self._end_data_plane)
        self._data_plane.start()
        node.logs = self._open_logs()
        node.node_id = node.logs.properties.node_id
        node.cluster_id = node.logs.properties.cluster_id
        node.partitions = PartitionTable(node)
        node.leader_id = node.node_id
        if self.config.votes_with_others and spec is None:
            raise BrokerStartError(
                "a controller needs a listener for the others: name it in controller.listener.names, and give it in "
                "listeners the address that controller.quorum.voters has for this node"
            )
        part = cluster_part(node, listens=spec is not None)
        self._undo.append(part.stop_copying)
        several = len(node.logs.folders.all) > 1
        if self.config.is_broker and (self.config.is_one_of_several or spec is not None or several):
            self._assign_folders(several=several)
        node.producer_ids = ProducerIds(node.active_controller.submit)
        self._undo.append(part.stop)
        if self.config.votes_with_others:  # the other controllers must reach this one before any of them can lead
            acceptors, processor = self._bind(spec)
            _ask(processor, StartServing)
            _ask(acceptors.pop(), StartServing)
            part.start()
        else:
            part.start()
            acceptors, processor = self._bind(spec)
        if not self.config.is_broker:
            return
        self._resume()
        part.register(
            [
                Endpoint(each.name, each.advertised_host, each.advertised_port, each.protection.protocol)
                for each in node.listeners
            ]
        )
        for command in self._first:
            self._carry_out(command)
        node.share_states = ShareStates(
            node, node.partitions, lambda name, then: node.auto_creation.create((name,), lambda _: then())
        )
        node.groups = Groups(node, node.partitions, node.share_states)
        node.transactions = Transactions(node, node.partitions, node.producer_ids, node.groups)
        node.share_partitions = SharePartitions(
            node,
            node.partitions,
            node.share_states,
            lambda name, configs, then: node.auto_creation.create((name,), lambda _: then(), configs),
        )
        for coordinators in (node.groups, node.transactions, node.share_states, node.share_partitions):
            self._undo.append(partial(call_on, self._data_plane, coordinators.stop))
            call_on(self._data_plane, coordinators.start)
        housekeeping = LogHousekeeping(node)
        self._undo.append(housekeeping.stop)
        housekeeping.start()
        _ask(processor, StartServing)
        for acceptor in acceptors:
            _ask(acceptor, StartServing)
        self._undo.append(partial(self._leave, part))
        part.ready()

    def _leave(self, part: ClusterPart) -> None:
        """Leave the cluster in order. A broker that cannot continue has little time for it."""
        part.leave(LEAVE_WITHIN_S if self.failures.ended is None else LEAVE_AFTER_FAULT_S)

    def _assign_folders(self, *, several: bool) -> None:
        """Let the controller know which data folder has which replica, and let replicas move between `several` folders."""
        # A broker on its own does not load this module.
        from streamactors.broker.server.folder_assignments import FolderAssignments

        self._shortages.assignments = assignments = FolderAssignments(self.node)
        call_on(self._data_plane, assignments.start)
        self._undo.append(partial(call_on, self._data_plane, assignments.stop))
        if several:
            from streamactors.broker.replication.folder_moves import FolderMoves

            self.node.folder_moves = moves = FolderMoves(self.node, assignments.moved)
            self._undo.append(partial(call_on, self._data_plane, moves.stop))
            self._resume = partial(call_on, self._data_plane, lambda: moves.resume(self.node.partitions))

    def _enter_others(self) -> None:
        """Prepare the connections to brokers and controllers. Raises InvalidSetting."""
        if self.config.is_broker:
            self.node.to_brokers = ChannelMaker.of(self.config, inter_broker_listener(self.config))
        self.node.to_controllers = ChannelMaker.of(self.config, controller_listener(self.config))

    def _cluster_id(self) -> str | None:
        """Return the id of the cluster that a new data folder joins; None if the folder or this broker decides."""
        if self.config.votes_with_others and not (self._folder / META_PROPERTIES).exists():
            raise BrokerStartError(
                f"{self._folder} is not formatted, and the controllers of a cluster must have the id of the same cluster; "
                f"format it with: streamactors storage format --cluster-id ID "
                f"--node-id {self.config.effective_node_id} --data {self._folder}"
            )
        if not self.config.is_member:
            return None
        from streamactors.broker.membership.discovery import cluster_of

        within_s = self.config.initial_broker_registration_timeout_ms / 1000
        return cluster_of(self.config.controllers, self._folder, within_s, self.node.to_controllers.credentials)

    def _carry_out(self, command: Command) -> None:
        """Carry out a command of the start. Raises BrokerStartError if it is refused."""
        done: Future[Any] = Future()
        self.node.controller.submit(command, done.set_result)
        answer = done.result()
        outcomes = answer.values() if isinstance(answer, dict) else answer
        for outcome in outcomes:
            if isinstance(outcome, Outcome) and outcome.code != ErrorCode.NONE:
                raise BrokerStartError(f"{type(command).__name__}: {outcome.message or outcome.code.name}")

    def _open_logs(self) -> LogManager:
        logs = LogManager(
            self._folder,
            others=[each for each in self.config.data_folders if each != self._folder],
            metadata_apart=self.config.metadata_apart,
            default_config=LogConfig(),
            config=ManagerConfig.of(self.config),
            node_id=self.config.effective_node_id,
            cluster_id=self._cluster_id(),
            clock_ms=self._clock.wall_ms,
            flush_pool=FlushPool(self._clock.wall_ms, self._deliver),
            disk=self._disk,
            others_have_metadata=self.config.is_member or len(self.node.controllers) > 1,
        )
        self._undo.append(logs.close)
        logs.on_folder_failed = self.failures.failed
        logs.on_shortage = self._shortages.begins
        if self.config.is_one_of_several or controller_spec(self.config) is not None:
            logs.watched = True  # another broker can lead what this one cannot write
        logs.open()
        return logs

    def _deliver(self, outcomes: list[Flushed]) -> None:
        """Pass the outcomes of one flush to the data plane."""

        def deliver() -> None:
            for done, code in outcomes:
                try:
                    done(code)
                except Exception:  # noqa: BLE001 - the other writers must be called
                    _log.exception("an answer to a flush failed; this is a bug")

        try:
            self._data_plane.execute(deliver)
        except DispatcherStopped:
            pass  # the broker has stopped

    def _bind(self, for_controllers: ListenerSpec | None) -> tuple[list[Cell], Cell]:
        """Bind the listeners. Return the mailbox of the acceptor for clients, then that of the one for other nodes if there is one, and the
        processor's mailbox."""
        node, data_plane = self.node, self._data_plane
        limits = Limits.of(node.config)
        node.processor = Processor(data_plane, limits, Dispatch(node, self.routes))
        processor = spawn(ProcessorActor(node.processor), data_plane, f"{data_plane.name}-processor")
        acceptors = [
            Acceptor(
                data_plane,
                limits,
                lambda sock, listener: processor.tell(Adopt(sock, listener)),
                pause_ms=lambda: node.processor.rates.pause(self._clock.now_ms()),
                reserve=reserve,
            )
            # A flood of clients must not keep the other nodes out.
            for reserve in (DescriptorReserve(node.logs.log_room), *(() if for_controllers is None else (None,)))
        ]
        accepting = [spawn(AcceptorActor(each), data_plane, f"{data_plane.name}-acceptor") for each in acceptors]

        def close() -> None:
            for each in (*accepting, processor):
                _ask(each, StopServing)

        self._undo.append(close)
        node.metadata.subscribe(self._limit)
        self._use_quotas(node.metadata.image)
        node.metadata.subscribe(self._follow_quotas)
        if node.acls is not None:
            node.acls.use(node.metadata.image.acls.values())
            node.metadata.subscribe(self._use_acls)
        for spec in listener_specs(self.config):
            node.listeners.append(acceptors[0].bind(spec, self._protection(spec)))
        if for_controllers is not None:
            node.controller_listener = acceptors[-1].bind(for_controllers, self._protection(for_controllers))
            node.controller_listener.for_controllers = True
        return accepting, processor

    def _protection(self, spec: ListenerSpec) -> Protection:
        node, protocol = self.node, SecurityProtocol[spec.protocol]
        if protocol is SecurityProtocol.PLAINTEXT:
            return OPEN
        return protection_of(spec.name, protocol, self.config, node.metadata, node.tokens, self._clock.wall_ms)

    def _limit(self, delta: ImageDelta) -> None:
        if delta.brokers_configured:  # open connections keep their limits
            self.node.processor.limits = Limits.of(self.node.config)
            self.node.processor.rates.most_per_second = self.node.config.max_connection_creation_rate

    def _follow_quotas(self, delta: ImageDelta) -> None:
        if delta.quotas_changed:
            self._use_quotas(delta.image)

    def _use_quotas(self, image: MetadataImage) -> None:
        node, limits = self.node, self.node.processor.limits
        if image.quotas or node.charging is not None:
            quotas = (
                ClientQuotas(limits.quota_windows, limits.quota_window_ms, limits.mutation_burst_s)
                if node.charging is None
                else node.charging.quotas
            )
            quotas.use(image.quotas)
            node.charging = Charging(quotas, self._clock, node.fetch_sessions.unsent) if quotas else None
        node.processor.rates.use(image.quotas)

    def _use_acls(self, delta: ImageDelta) -> None:
        acls = self.node.acls
        if acls is not None and delta.acls_changed:
            acls.use(delta.image.acls.values())

    def _end_data_plane(self) -> None:
        self.node.helpers.stop()
        self.node.produce_purgatory.close()
        self.node.fetch_purgatory.close()
        self.node.stop_client_timers()
        if not self._data_plane.stop(_STOP_SECONDS):
            _log.warning("the data plane of %s did not stop within %.0f s", self._data_plane.name, _STOP_SECONDS)


def _ask(cell: Cell, order: type[StartServing] | type[StopServing]) -> None:
    """Send an order to an actor of the network and wait until it is carried out."""
    done: Future[None] = Future()
    cell.tell(order(done))
    done.result()
