"""The server: one broker, put together from its parts, started and stopped.

Owner: whoever made it. Order of starting: logs (lock, recovery), controller (replays the metadata, hosts partitions),
listeners bound, this broker registered, coordinators, and only then the first connection is accepted. Stopping goes the
other way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from streamactors.actors.cell import Cell
from streamactors.actors.dispatcher import Dispatcher, DispatcherStopped
from streamactors.broker import apis
from streamactors.broker.api import Routes
from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.listeners import listener_specs
from streamactors.broker.controller.controller import Controller
from streamactors.broker.controller.delta import ImageDelta
from streamactors.broker.controller.metadata_record import Endpoint
from streamactors.broker.dispatch import Dispatch
from streamactors.broker.errors import BrokerStartError, StorageError
from streamactors.broker.group.groups import Groups
from streamactors.broker.log.config import LogConfig, ManagerConfig
from streamactors.broker.log.files import Disk
from streamactors.broker.log.flusher import FlushPool, Outcome
from streamactors.broker.log.manager import LogManager
from streamactors.broker.log_housekeeping import LogHousekeeping
from streamactors.broker.metadata_publisher import MetadataPublisher
from streamactors.broker.network.acceptor import Acceptor
from streamactors.broker.network.limits import Limits
from streamactors.broker.network.network_actors import AcceptorActor, Adopt, ProcessorActor, Start, Stop, spawn
from streamactors.broker.network.processor import Processor
from streamactors.broker.node import Node
from streamactors.broker.producer_ids import ProducerIds
from streamactors.broker.replication.partitions import Partitions
from streamactors.broker.transaction.transactions import Transactions
from streamactors.clock import Clock, SystemClock

_log = logging.getLogger("streamactors.broker")

T = TypeVar("T")

_PLAINTEXT: Final = 0  # the code of the security protocol in a registration
_STOP_SECONDS: Final = 5.0


class Broker:
    """One broker. `start` returns when it can be connected to; `stop` leaves no thread, socket or file open."""

    def __init__(
        self, config: BrokerConfig, data_folder: Path, clock: Clock | None = None, *, disk: Disk | None = None
    ) -> None:
        self.config = config
        self._clock = clock if clock is not None else SystemClock()
        self._folder = data_folder
        self._disk = disk
        self._stopped = False
        self._life = threading.Lock()
        name = f"broker-{config.effective_node_id}"
        self._data_plane = Dispatcher(name, self._clock)
        self.node = Node(config, self._data_plane, Routes.of_package(apis))
        self._undo: list[Callable[[], object]] = []

    def start(self) -> Broker:
        """Open the data folder, load everything, listen. Raises BrokerStartError; nothing is left behind then."""
        try:
            self._start()
        except StorageError as error:
            self.stop()
            raise BrokerStartError(
                f"cannot use the data folder {self._folder}: {error}; see to it, or choose another with --data"
            ) from error
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop accepting, close connections, end the parts, flush and unlock the logs. More calls do nothing."""
        with self._life:
            if self._stopped:
                return
            self._stopped = True
            while self._undo:
                undo = self._undo.pop()
                try:
                    undo()
                except Exception:  # noqa: BLE001 - logged; the other parts must be stopped too
                    _log.exception("stopping the broker: %s failed", getattr(undo, "__qualname__", undo))

    def _start(self) -> None:
        node = self.node
        self._undo.append(self._end_data_plane)
        self._data_plane.start()
        node.logs = self._open_logs()
        node.node_id = node.logs.properties.node_id
        node.cluster_id = node.logs.properties.cluster_id
        node.partitions = Partitions(node)
        node.producer_ids = ProducerIds(node)
        node.controller = Controller(node, MetadataPublisher(node))
        self._undo.append(node.controller.stop)
        node.controller.start()
        acceptor, processor = self._bind()
        node.controller.register(
            [Endpoint(each.name, each.advertised_host, each.advertised_port, _PLAINTEXT) for each in node.listeners]
        )
        node.groups = Groups(node)
        node.transactions = Transactions(node)
        for coordinators in (node.groups, node.transactions):
            self._undo.append(partial(self._on_data_plane, coordinators.stop))
            self._on_data_plane(coordinators.start)
        housekeeping = LogHousekeeping(node)
        self._undo.append(housekeeping.stop)
        housekeeping.start()
        _ask(processor, Start)
        _ask(acceptor, Start)

    def _open_logs(self) -> LogManager:
        logs = LogManager(
            self._folder,
            default_config=LogConfig(),
            config=ManagerConfig.of(self.config),
            node_id=self.config.effective_node_id,
            clock_ms=self._clock.wall_ms,
            flush_pool=FlushPool(self._deliver),
            disk=self._disk,
        )
        self._undo.append(logs.close)
        logs.open()
        return logs

    def _deliver(self, outcomes: list[Outcome]) -> None:
        """Hand the outcomes of one flush to the data plane."""

        def deliver() -> None:
            for done, code in outcomes:
                try:
                    done(code)
                except Exception:  # noqa: BLE001 - who wrote at the same time must hear of it all the same
                    _log.exception("an answer to a flush failed; this is a bug")

        try:
            self._data_plane.execute(deliver)
        except DispatcherStopped:
            pass  # nobody waits for them any more

    def _bind(self) -> tuple[Cell, Cell]:
        """Bind the listeners; return the acceptor's and the processor's mailboxes."""
        node, data_plane = self.node, self._data_plane
        limits = Limits.of(node.config)
        node.processor = Processor(data_plane, limits, Dispatch(node))
        processor = spawn(ProcessorActor(node.processor), data_plane, f"{data_plane.name}-processor")
        acceptor = Acceptor(data_plane, limits, lambda sock, listener: processor.tell(Adopt(sock, listener)))
        accepting = spawn(AcceptorActor(acceptor), data_plane, f"{data_plane.name}-acceptor")

        def close() -> None:
            _ask(accepting, Stop)
            _ask(processor, Stop)

        self._undo.append(close)
        node.controller.subscribe(self._limit)
        for spec in listener_specs(self.config):
            node.listeners.append(acceptor.bind(spec))
        return accepting, processor

    def _limit(self, delta: ImageDelta) -> None:
        if delta.brokers_configured:  # connections that are open stay
            self.node.processor.limits = Limits.of(self.node.config)

    def _end_data_plane(self) -> None:
        self.node.helpers.stop()
        self.node.produce_purgatory.close()
        self.node.fetch_purgatory.close()
        if not self._data_plane.stop(_STOP_SECONDS):
            _log.warning("the data plane of %s did not end within %.0f s", self._data_plane.name, _STOP_SECONDS)

    def _on_data_plane(self, fn: Callable[[], T]) -> T:
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(fn())
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                done.set_exception(error)

        self._data_plane.execute(run)
        return done.result()


def _ask(cell: Cell, order: type[Start] | type[Stop]) -> None:
    """Give an order to an actor of the network and wait until it is carried out."""
    done: Future[None] = Future()
    cell.tell(order(done))
    done.result()
