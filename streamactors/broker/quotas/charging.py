"""Charges the answers of requests to the quotas of their clients, and throttles clients above their quota. The answer goes out at once
with the throttle time in it; for that time the broker does not read the connection (KIP-219).

Owner: the data plane. A node without quotas has no `Charging`, so that requests do not pay for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.protocol.fetch import FetchResponse
from streamactors.broker.protocol.metadata import MetadataResponse
from streamactors.broker.protocol.produce import ProduceResponse
from streamactors.broker.quotas.client_quotas import FETCH, MUTATIONS, PRODUCE, REQUEST, ClientQuotas
from streamactors.broker.quotas.mutations import MutationQuota
from streamactors.clock import Clock

if TYPE_CHECKING:
    from streamactors.broker.requests.request import Request

_PRODUCE_KEY: Final = 0
_FETCH_KEY: Final = 1
_PERCENT_PER_NS: Final = 100.0 / 1e9


class Charging:
    """Charges answers to the quotas of their clients; throttles clients above their quota."""

    def __init__(
        self, quotas: ClientQuotas, clock: Clock, unsent: Callable[[int, bool], object] = lambda number, opens: None
    ) -> None:
        self.quotas = quotas
        self._unsent = unsent  # called with the fetch session whose answer is not sent, and whether that answer would have opened it
        self._now_ms = clock.now_ms

    @property
    def times_requests(self) -> bool:
        """Whether the time of requests must be measured."""
        return self.quotas.has(REQUEST)

    def most_bytes(self, request: Request, asked: int) -> int:
        """Return how many bytes a fetch may return at most."""
        most = self.quotas.most_in_all_windows(FETCH, *_client(request))
        return asked if most is None else int(min(asked, most))

    def mutations(self, request: Request, *, strict: bool) -> MutationQuota | None:
        """Return the quota for a request that changes topics, None if its client has none."""
        limit = self.quotas.limit(MUTATIONS, *_client(request))
        if limit is None:
            return None
        return MutationQuota(self.quotas.bucket(limit, self._now_ms()), limit.value, self._now_ms, strict=strict)

    def charged(self, request: Request, answer: Any) -> Any:
        """Charge a request and return its answer, with the throttle time in it. The answer is None if there will be none."""
        key = request.api_key
        if not request.charged or (key == _FETCH_KEY and request.message.replica_id >= 0):  # of a follower
            return answer
        quotas, now_ms = self.quotas, self._now_ms()
        user, client_id = _client(request)
        throttle_ms = 0.0
        if answer is not None and quotas.has(REQUEST):
            busy_ns = request.busy_ns(time.perf_counter_ns())
            throttle_ms = quotas.record(REQUEST, user, client_id, busy_ns * _PERCENT_PER_NS, now_ms)
        if key == _PRODUCE_KEY:
            throttle_ms = max(throttle_ms, quotas.record(PRODUCE, user, client_id, request.received_bytes, now_ms))
        elif isinstance(answer, FetchResponse):
            size = _size(answer)
            # The first batch of a fetch may be larger than any answer below the quota. It is sent, or the client would never get it.
            too_large = quotas.never_fits(FETCH, user, client_id, size, now_ms)
            fetch_ms = quotas.record(FETCH, user, client_id, size, now_ms)
            throttle_ms = max(throttle_ms, fetch_ms)
            if round(fetch_ms) and not too_large:
                quotas.take_back(FETCH, user, client_id, size, now_ms)
                _release(answer)
                opens = request.message.session_epoch == 0
                self._unsent(answer.session_id, opens)
                answer = FetchResponse([], answer.error_code, 0 if opens else answer.session_id)
        if request.mutations is not None:
            throttle_ms = max(throttle_ms, request.mutations.throttle_ms)
        whole_ms = round(throttle_ms)
        if not whole_ms:
            return answer
        request.connection.throttle(whole_ms)
        return _told(request, answer, whole_ms)


def _client(request: Request) -> tuple[str, str]:
    return request.principal.partition(":")[2], request.client_id


def _told(request: Request, answer: Any, throttle_ms: int) -> Any:
    """Return the answer with the throttle time, if its version has that field."""
    if isinstance(answer, (ProduceResponse, FetchResponse, MetadataResponse)):
        return answer._replace(throttle_time_ms=throttle_ms)
    if isinstance(answer, Mapping) and request.has_field("throttle_time_ms"):
        return {**answer, "throttle_time_ms": throttle_ms}
    return answer


def _size(answer: FetchResponse[Any]) -> int:
    return sum(
        len(partition.records) if isinstance(partition.records, (bytes, bytearray)) else partition.records.length
        for topic in answer.topics
        for partition in topic.partitions
    )


def _release(answer: FetchResponse[Any]) -> None:
    for topic in answer.topics:
        for partition in topic.partitions:
            if not isinstance(partition.records, (bytes, bytearray)):
                partition.records.release()
