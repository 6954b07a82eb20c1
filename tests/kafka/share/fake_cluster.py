"""A share group's cluster without sockets, for the threads of a member: `ModelCluster` under a lock, in place of the connections."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from streamactors.kafka.client.share.protocol import ErrorCode, ShareAnswer, ShareRequest
from streamactors.kafka.client.share.share_requests import Layout
from streamactors.kafka.errors import NoBroker
from streamactors.kafka.property_rules import Address
from streamactors.kafka.sources.share_group import share_member
from tests.kafka.share.model_broker import LOCK_MS, TOPIC, ModelCluster


class FakeCluster:
    """Brokers 0 and 1. `errors` are answered by the next heartbeats, `denied` by every fetch."""

    def __init__(self, patch: pytest.MonkeyPatch, partitions: int, records: int, gaps: set[int] = frozenset()) -> None:
        self.model = ModelCluster(partitions, records, set(gaps))
        self.lock = threading.RLock()
        self.errors: list[ErrorCode] = []
        self.denied = 0
        self.heartbeats: list[tuple[str, int]] = []
        self.requests: list[ShareRequest] = []
        self.look_ups = self.coordinators = 0
        self.silent = threading.Event()  # brokers do not answer while it is set
        self.broken: set[int] = set()  # brokers whose next request breaks the connection
        self._born = time.monotonic()
        patch.setattr(share_member, "ShareCoordinator", lambda *_: FakeCoordinator(self))
        patch.setattr(share_member, "ShareBroker", lambda *_: FakeBroker(self))

    def tick(self) -> None:
        self.model.tick((time.monotonic() - self._born) * 1_000 - self.model.now_ms)

    def states(self) -> list[str]:
        with self.lock:
            return [each.state for log in self.model.log.values() for each in log]


class _Closing:
    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def abort(self) -> None:
        pass


class FakeCoordinator(_Closing):
    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.known = False

    def share_version(self) -> int:
        return 2

    def layout(self, topics) -> Layout:
        cluster = self.cluster
        with cluster.lock:
            cluster.look_ups += 1
            return Layout({TOPIC: "jobs"}, dict(cluster.model.leaders), {n: Address("fake", n) for n in (0, 1)})

    def heartbeat(self, member_id: str, epoch: int, topics) -> SimpleNamespace:
        cluster = self.cluster
        with cluster.lock:
            cluster.coordinators += not self.known
            self.known = True
            cluster.heartbeats.append((member_id, epoch))
            error = cluster.errors.pop(0) if cluster.errors and epoch >= 0 else ErrorCode.NONE
            shards = [SimpleNamespace(topic_id=TOPIC, partitions=[each.partition for each in cluster.model.shards])]
            return SimpleNamespace(
                error_code=error,
                error_message=None,
                member_epoch=epoch + 1 if epoch < 2 else epoch,
                heartbeat_interval_ms=20,
                assignment=SimpleNamespace(topic_partitions=shards),
            )

    def moved(self) -> None:
        self.known = False


class FakeBroker(_Closing):
    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.aborted = threading.Event()
        self.used: tuple[int, str] | None = None

    def abort(self) -> None:
        self.aborted.set()
        if self.used is not None:
            with self.cluster.lock:
                self.cluster.model.drop_session(*self.used)

    def ask(self, address: Address, request: ShareRequest) -> ShareAnswer:
        cluster = self.cluster
        self.aborted.clear()
        while cluster.silent.is_set():
            if self.aborted.wait(0.01):
                raise NoBroker("the connection was ended")
        with cluster.lock:
            cluster.tick()
            cluster.requests.append(request)
            self.used = address.port, request.member_id
            if address.port in cluster.broken:
                cluster.broken.discard(address.port)
                raise NoBroker("the connection broke")
            if cluster.denied:
                return ShareAnswer(error=cluster.denied)
            answer = cluster.model.answer(address.port, request)
        if not any(each.acquired for each in answer.shards) and not request.acks:
            self.aborted.wait(0.01)
        return answer


assert LOCK_MS == 1_000
