"""How long requests take, by API, while somebody looks: until the answer is ready, and the part in which the data plane works.

Owner: the data plane. A node has none of it while nobody looks, and its requests then pay one comparison."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from streamactors.broker.latencies import Latencies
from streamactors.broker.protocol.api_keys import NAMES

if TYPE_CHECKING:
    from streamactors.broker.requests.request import Request


class RequestTimes:
    """Spans of requests by API key."""

    def __init__(self) -> None:
        self._by_key: dict[int, tuple[Latencies, Latencies]] = {}

    def ended(self, request: Request, now_ms: float) -> None:
        """The answer of a request is ready."""
        spans = self._by_key.get(request.api_key)
        if spans is None:
            spans = self._by_key[request.api_key] = (Latencies(), Latencies())
        spans[0].add(max(0, int((now_ms - request.received_at_ms) * 1e6)))
        spans[1].add(max(0, request.busy_ns(perf_counter_ns())))

    def take(self, seconds: float) -> list[dict[str, Any]]:
        """Return a row for each API that was asked in the last `seconds`, since the last call."""
        rows = []
        for key, (total, local) in sorted(self._by_key.items()):
            spans, busy = total.take(), local.take()
            if spans is not None and busy is not None:
                name = "".join(word.capitalize() for word in NAMES.get(key, f"key_{key}").split("_"))
                rows.append(
                    {
                        "api": name,
                        "per_s": round(spans.n / max(seconds, 0.001), 3),
                        "ms_p50": round(spans.ms_p50, 3),
                        "ms_p99": round(spans.ms_p99, 3),
                        "ms_max": round(spans.ms_max, 3),
                        "local_ms_p99": round(busy.ms_p99, 3),
                    }
                )
        return rows
