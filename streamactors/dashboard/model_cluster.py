"""The parts of a State that are about a Kafka cluster and about Spark. `model.py` explains units and nulls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DiskState:
    """A data folder of a node: the bytes of its logs; size and free room of its file system. `error`: why it cannot be used."""

    folder: str
    bytes: int
    total_bytes: int | None = None
    free_bytes: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """Requests of one API in the last seconds: from the first byte of the request until its answer is ready, waits included. `local_ms_p99`: the time in
    which the broker worked on it."""

    api: str
    per_s: float
    ms_p50: float
    ms_p99: float
    ms_max: float
    local_ms_p99: float


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node of the cluster. `purgatory`: requests that wait inside the broker. `request_ms_p99`: of Produce. `controller`: it is the active controller.
    `disk_busy`: the share of time in which it writes to its logs; `throttled`: connections that a quota slows down. What only the broker itself
    knows is null where the cluster is not one that this process has started."""

    id: int
    role: str
    leader_of: int = 0
    disk_bytes: int | None = None
    request_ms_p99: float | None = None
    purgatory: int | None = None
    controller: bool = False
    address: str | None = None
    connections: int | None = None
    produce_purgatory: int | None = None
    fetch_purgatory: int | None = None
    disk_write_ms_p99: float | None = None
    disk_write_ms_max: float | None = None
    disk_busy: float | None = None
    throttled: int | None = None
    disks: tuple[DiskState, ...] = ()
    requests: tuple[RequestTimes, ...] = ()


@dataclass(frozen=True, slots=True)
class IsrChange:
    """The replicas in sync of a partition have changed, as the page has seen it."""

    at_ms: int
    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    leader: int | None = None


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic."""

    name: str
    partitions: int
    under_replicated: int = 0
    bytes: int | None = None
    messages_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class BrokerPartition:
    """Where one partition is. `start`, `end`: offsets of the first record and after the last one."""

    topic: str
    partition: int
    leader: int | None
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class GroupState:
    """One group. `kind`: classic, consumer, share or streams; simple: offsets that were committed without members."""

    id: str
    kind: str
    state: str
    members: int
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionState:
    """One transaction that the cluster knows. `age_ms`: of an open one, since it began."""

    id: str
    state: str
    age_ms: int | None = None
    producer_id: int | None = None


@dataclass(frozen=True, slots=True)
class QuotaState:
    """A quota of users, client ids or addresses."""

    entity: str
    key: str
    value: float


@dataclass(frozen=True, slots=True)
class BrokerState:
    """The cluster: that of `Cluster(dashboard=True)`, or the one whose topics the graphs of this process read and write. `controller`: the node that is
    the active controller."""

    nodes: tuple[NodeState, ...] = ()
    topics: tuple[TopicState, ...] = ()
    partitions: tuple[BrokerPartition, ...] = ()
    groups: tuple[GroupState, ...] = ()
    transactions: tuple[TransactionState, ...] = ()
    quotas: tuple[QuotaState, ...] = ()
    isr_changes: tuple[IsrChange, ...] = ()
    controller: int | None = None
    cluster: str | None = None
    process: str | None = None


@dataclass(frozen=True, slots=True)
class ExecutorState:
    """One Spark executor; `driver` is the process of the query itself, which works as an executor in local mode."""

    id: str
    state: str
    address: str | None = None
    cores: int | None = None
    tasks: int | None = None
    done: int | None = None
    failed: int | None = None
    memory_bytes: int | None = None
    memory_total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SparkState:
    """A Spark query that takes the elements of a graph: its last batch. `writing_rows`, `writing_ms`: the batch that Spark is writing now, and for how
    long already; `gathered_rows` wait for the next batch. `demand`: rows that the next batch may have."""

    query: str
    graph: str = ""
    phase: str = ""
    writing_rows: int | None = None
    writing_ms: int | None = None
    gathered_rows: int | None = None
    batch: int | None = None
    rows: int | None = None
    duration_ms: float | None = None
    demand: int | None = None
    executors: tuple[ExecutorState, ...] = ()
    process: str | None = None
