"""A cluster of several brokers, one process each, and the faults that a test may cause in it.

Owner: `Cluster(brokers=…)`. All nodes are on loopback, and all are brokers. The first ones are controllers too: nodes 1 to 3, which elect one of
them, or node 1 alone."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.cluster.acked import check_acked
from streamactors.broker.cluster.node_process import NodeProcess
from streamactors.broker.cluster.reserved_ports import HOST, ReservedPorts
from streamactors.broker.cluster.view import PartitionView, View
from streamactors.broker.errors import BrokerError, BrokerStartError
from streamactors.broker.launch.storage_format import format_folder, new_cluster_id, read_folder
from streamactors.broker.log.folders.meta_properties import FILE_NAME as META_PROPERTIES
from streamactors.broker.quorum.vote_file import FILE_NAME as VOTE_FILE
from streamactors.broker.server.stored_quorum import METADATA_FOLDER

if TYPE_CHECKING:
    from streamactors.broker.cluster.cluster_credentials import ClusterCredentials

POLL_S: Final = 0.01
READY_S: Final = 30.0
CONTROLLER: Final = 1
PROFILE: Final[Mapping[str, Any]] = {
    "broker.heartbeat.interval.ms": 200,
    "broker.session.timeout.ms": 2_000,
    "replica.lag.time.max.ms": 2_000,
    "controller.fence.closed.connections": True,
}
QUORUM_PROFILE: Final[Mapping[str, Any]] = {
    "controller.quorum.election.timeout.ms": 200,
    "controller.quorum.fetch.timeout.ms": 600,
}


def default_controllers(brokers: int) -> int:
    """Return the number of controllers of a new cluster: three, of which one may die, or one where there are fewer than three brokers."""
    return 3 if brokers >= 3 else 1


def _controllers(data_folder: Path, brokers: int, asked: int | None) -> int:
    """Return the number of controllers. Other controllers than those of the folder could elect a leader without its metadata."""
    if (data_folder / META_PROPERTIES).exists():
        # the new cluster would have none of its topics, and its nodes would lie among the partitions of the broker
        raise BrokerStartError(
            f"Cluster(brokers={brokers}, data={str(data_folder)!r}): this is the data folder of a single broker; choose another folder"
        )
    found = sum(
        (data_folder / str(node_id) / METADATA_FOLDER / VOTE_FILE).exists() for node_id in range(1, brokers + 1)
    )
    if not found:
        return default_controllers(brokers) if asked is None else asked
    if asked not in (None, found):
        raise BrokerStartError(
            f"Cluster(brokers={brokers}, controllers={asked}, data={str(data_folder)!r}): the cluster in this folder has controllers={found}; "
            "leave controllers out, or choose another folder"
        )
    return found


class SeveralBrokers:
    """Starts when it is made; `close` stops it. `arguments` are those of one broker process."""

    def __init__(
        self,
        count: int,
        arguments: Mapping[str, Any],
        controllers: int | None = None,
        credentials: ClusterCredentials | None = None,
        port: int | None = None,
    ) -> None:
        """`controllers` of the nodes are controllers: without it as many as the data folder has, in a new one `default_controllers`.

        `port` is that of node 1, the next nodes have the next ports; without it each gets a free one. Raises BrokerStartError."""
        given = arguments["data"]
        self.data_folder = Path(tempfile.mkdtemp(prefix="streamactors-cluster-") if given is None else given).absolute()
        self._temporary = given is None
        self._controllers = range(1, _controllers(self.data_folder, count, controllers) + 1)
        self._credentials = None if credentials is None else credentials.owner()
        self._protocol = "PLAINTEXT" if credentials is None else credentials.protocol
        self._ports = ReservedPorts(() if port is None else range(port, port + count))
        self.nodes: dict[int, NodeProcess] = {}
        self._view = View(lambda: [each.address for each in self.nodes.values() if each.running], self._credentials)
        self._cut: set[tuple[int, int]] = set()  # (sender, receiver)
        self._slow_ms: dict[int, float] = {}
        try:
            self._make_nodes(count, arguments, port)
            self._start_all()
            self._await_whole()
            if credentials is not None:
                self._let_in(credentials.users, credentials.acls or [])
        except BaseException:
            self.close()
            raise
        self.bootstrap_servers = ",".join(each.address for each in self.nodes.values())
        self.cluster_id: str = self.nodes[CONTROLLER].child.cluster_id

    def _make_nodes(self, count: int, arguments: Mapping[str, Any], port: int | None) -> None:
        """Choose the ports and settings of the nodes, and format the folders of several controllers. Raises BrokerStartError."""
        ports = {node_id: self._ports.reserve() for node_id in self._controllers}
        quorum = self._quorum(ports)
        in_sync = min(2, count)
        settings = {
            **PROFILE,
            "default.replication.factor": min(3, count),
            "min.insync.replicas": in_sync,
            "transaction.state.log.min.isr": in_sync,
            **arguments["settings"],
        }
        for node_id in range(1, count + 1):
            role: dict[str, Any] = {"process.roles": "broker"}
            if node_id in ports:
                role = {**quorum, "process.roles": "broker,controller", "controller.listener.names": "CONTROLLER"}
            else:
                role["controller.quorum.bootstrap.servers"] = ",".join(f"{HOST}:{port}" for port in ports.values())
            own = {**arguments, "add_scram": [], "acls": [], "settings": {**settings, **role, "node.id": node_id}}
            self.nodes[node_id] = NodeProcess(
                node_id,
                self.data_folder / str(node_id),
                own,
                self._ports.reserve() if port is None else port + node_id - 1,
                ports.get(node_id),
                self._protocol,
            )

    def _let_in(self, users: Mapping[str, str], acls: Sequence[Mapping[str, str]]) -> None:
        """Create the users and the entries, and wait until every node has them. Raises BrokerError."""
        from streamactors.broker.cluster.first_users import add_acls, add_users, knows  # loads cryptography

        if not users:
            return
        ask = partial(self._view.ask, self.local_address)
        add_users(ask, users)
        if acls:
            add_acls(ask, acls)
        for node in self.nodes.values():
            one = partial(self._view.ask, node.address)
            self._await(lambda one=one: knows(one, users, acls), lambda: "a broker does not know the users", READY_S)  # type: ignore[misc]

    def _quorum(self, ports: Mapping[int, int]) -> dict[str, Any]:
        """Return the settings of several controllers, and format their new folders with the id of one cluster."""
        if len(ports) == 1:
            return {}
        folders = {node_id: self.data_folder / str(node_id) for node_id in ports}
        known = [each for each in map(read_folder, folders.values()) if each is not None]
        cluster_id = known[0].cluster_id if known else new_cluster_id()
        for node_id, folder in folders.items():
            if read_folder(folder) is None:
                format_folder(folder, node_id, cluster_id)
        voters = ",".join(f"{node_id}@{HOST}:{port}" for node_id, port in ports.items())
        return {**QUORUM_PROFILE, "controller.quorum.voters": voters}

    @property
    def local_address(self) -> str:
        """The address of a broker that runs. Raises BrokerStartError if none does."""
        for node in self.nodes.values():
            if node.running:
                return node.address
        raise BrokerStartError("no node is running; start(1) starts node 1 again")

    @property
    def pid(self) -> int:
        """The id of the active controller's process."""
        return self.node(self.controller()).child.pid

    def controller(self) -> int:
        """Return the id of the active controller's node. Raises BrokerError if none leads."""
        return CONTROLLER if len(self._controllers) == 1 else self._view.controller()

    def internals(self) -> list[dict[str, Any] | None]:
        """Return what each node that runs knows of itself; None for one that does not answer within five seconds."""
        return [each.child.internals() for each in list(self.nodes.values()) if each.running]

    def close(self) -> None:
        """Stop every node, the controller last. With a temporary folder the nodes are killed, so that no leadership moves, and the folder goes.

        A close that is interrupted kills the nodes that still run."""
        started = [each for each in self.nodes.values() if each.started]
        try:
            if self._temporary and started:
                # at once, so that no node sees another one end and warns of it
                with ThreadPoolExecutor(len(started)) as pool:
                    list(pool.map(NodeProcess.kill, started))
            for node in sorted(started, key=lambda each: -each.node_id):
                if node.started:
                    node.stop()
        except BaseException:
            # an interrupted close -> the nodes that it had not reached would run on, and nobody could stop them
            for node in self.nodes.values():
                node.abandon()
            raise
        finally:
            self._ports.close()
            if self._temporary:
                shutil.rmtree(self.data_folder, ignore_errors=True)

    def _start_all(self) -> None:
        down = [each for each in self.nodes.values() if not each.alive]
        if not down:
            return
        with ThreadPoolExecutor(len(down)) as pool:
            starting: list[Future[None]] = []
            try:
                for each in down:
                    each.launch(self._links_of(each))
                    starting.append(pool.submit(each.await_ready))
                for ready in as_completed(starting):
                    ready.result()
            except BaseException:
                # nodes 2 and 3 refuse to start, as in a folder that is in use -> node 1 would wait 30 s for their votes, and tell of that alone
                for each in down:
                    each.abandon()
                raise
        self._tell_links()

    # --- what happens to nodes ---

    def node(self, node_id: int) -> NodeProcess:
        """Return a node. Raises BrokerStartError for an unknown id."""
        if node_id not in self.nodes:
            raise BrokerStartError(f"there is no node {node_id}; this cluster has nodes 1 to {len(self.nodes)}")
        return self.nodes[node_id]

    def start(self, node_id: int) -> None:
        """Start a node that was killed or stopped, on its old folder and address. Its cut links are cut from the beginning."""
        node = self.node(node_id)
        node.start(self._links_of(node))
        self._tell_links()

    def partition(self, *sides: Collection[int]) -> None:
        """Cut the links between nodes of different sides. A node on no side keeps its links."""
        for side in sides:
            for node_id in side:
                self.node(node_id)
        self._cut = {
            (sender, receiver)
            for side in sides
            for other in sides
            if side is not other
            for sender in side
            for receiver in other
        }
        self._tell_links()

    def slow(self, node_id: int, ms: float) -> None:
        """Delay every request to and from a node. Raises BrokerStartError."""
        self.node(node_id)
        if not 0 <= ms < math.inf:
            raise BrokerStartError(f"slow({node_id}, ms={ms!r}): the delay is 0 ms or more; heal() ends it")
        self._slow_ms[node_id] = ms
        self._tell_links()

    def heal(self) -> None:
        """Make every link whole and quick again."""
        self._cut.clear()
        self._slow_ms.clear()
        self._tell_links()

    def _tell_links(self) -> None:
        """Tell every node its links; return when each node that is not paused has cut and healed them."""
        for node in self.nodes.values():
            if node.alive:
                node.child.tell(self._links_of(node))
        for node in self.nodes.values():
            if node.running:
                node.child.await_followed()

    def _links_of(self, node: NodeProcess) -> dict[str, Any]:
        """Return the disturbed links of a node, in the form of `Links.follow`."""
        cut, slow = [], []
        for other in self.nodes.values():
            delay_ms = self._slow_ms.get(node.node_id, 0.0) + self._slow_ms.get(other.node_id, 0.0)
            for address in other.addresses if other is not node else ():
                if (node.node_id, other.node_id) in self._cut:
                    cut.append(address)
                elif delay_ms:
                    slow.append((address, delay_ms))
        return {"cut": cut, "slow": slow}

    # --- what is seen ---

    def seen(self, topic: str, partition: int) -> PartitionView:
        """Return a partition as a live broker describes it."""
        return self._view.partition(topic, partition)

    def await_isr(self, topic: str, partition: int, isr: Collection[int] | None, timeout_s: float) -> None:
        """Wait until these replicas are in sync, or all without `isr`. Raises TimeoutError, which says what was seen."""

        def wanted() -> set[int]:
            return set(self.seen(topic, partition).replicas if isr is None else isr)

        self._await(
            lambda: set(self.seen(topic, partition).isr) == wanted(),
            lambda: (
                f"{topic}-{partition}: in sync are {sorted(self.seen(topic, partition).isr)}, not {sorted(wanted())}"
            ),
            timeout_s,
        )

    def has_topic(self, topic: str) -> bool:
        """Return whether a live broker knows a topic."""
        return topic in self._view.topics()

    def await_topic(self, topic: str) -> None:
        """Wait until every live broker knows a topic."""
        for each in self._views():
            self._await(lambda one=each: topic in one.topics(), lambda: f"a broker does not know {topic}", READY_S)  # type: ignore[misc]

    def _await_whole(self) -> None:
        """Wait until every broker knows that all of them serve clients."""
        everyone = set(self.nodes)
        for each in self._views():
            self._await(
                lambda one=each: set(one.brokers()) == everyone,  # type: ignore[misc]
                lambda one=each: f"of nodes {sorted(everyone)}, only {sorted(one.brokers())} serve clients",  # type: ignore[misc]
                READY_S,
            )

    def _views(self) -> list[View]:
        """What each running broker says, one by one."""
        running = [node.address for node in self.nodes.values() if node.running]
        return [View(lambda address=address: [address], self._credentials) for address in running]  # type: ignore[misc]

    def acked_check(self, acked: Iterable[tuple[str, bytes]]) -> int:
        """See `acked.check_acked`."""
        return check_acked(self._view, acked)

    def reset(self) -> None:
        """Bring every node back, heal every link, delete every topic but the internal ones."""
        from streamactors.broker.wire_request import delete_topic

        self.heal()
        for node in self.nodes.values():
            node.resume()
        self._start_all()
        self._await_whole()
        for topic in self._view.topics():
            if not topic.startswith("__"):
                delete_topic(self.local_address, topic, self._credentials)

    def _await(self, there: Callable[[], bool], seen: Callable[[], str], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                if there():
                    return
                why = seen
            except (BrokerError, OSError) as error:
                why = lambda error=error: str(error)  # type: ignore[misc]  # noqa: E731
            if time.monotonic() > deadline:
                raise TimeoutError(f"{why()}, after {timeout_s:g} s")
            time.sleep(POLL_S)


def memory_of(pid: int) -> int:
    """Return the resident bytes of a process, for benchmarks. Linux only."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
