"""Settings of librdkafka's own clients that write and read topics for tests, without its waits of half a second."""

from __future__ import annotations

from typing import Any, Final

IN_ORDER: Final[dict[str, Any]] = {"linger.ms": 1, "max.in.flight": 1}
"""Of a producer. A new topic has no leader for a moment; with one request at a time, a batch that is tried again comes before its
successors. An idempotent producer keeps the order too, but it waits 500 ms for its id."""

TO_THE_END: Final[dict[str, Any]] = {"enable.partition.eof": True, "fetch.wait.max.ms": 10}
"""Of a consumer. The end of a partition is reported by a fetch that has waited in vain; by default such a fetch waits 500 ms."""
