"""One client of the telemetry: when it may ask and push, and what it may send. Pure.

Owner: the telemetry of one broker. A client has one entry per broker; the checks, their order and their texts are those of Apache Kafka's
ClientMetricsManager."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.records.compression import Compression
from streamactors.broker.telemetry.subscriptions import Wanted

_COMPRESSIONS: Final = frozenset(Compression)
_ASK_AT_ONCE: Final = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
"""After these errors a client asks for its subscription without waiting."""
_NEVER: Final = float("-inf")


class ClientInstance:
    """What a broker remembers of a client. `client` has the values that a `match` looks at; `version` is that of the subscriptions."""

    __slots__ = (
        "_last_error",
        "_last_get_ms",
        "_last_push_ms",
        "_terminating",
        "client",
        "expires_at_ms",
        "instance",
        "version",
        "wanted",
    )

    def __init__(self, instance: uuid.UUID, client: Mapping[str, str | None], wanted: Wanted, version: int) -> None:
        self.instance: Final = instance
        self.client: Final = client
        self.wanted: Final = wanted
        self.version: Final = version
        self.expires_at_ms = 0.0
        self._last_get_ms = _NEVER
        self._last_push_ms = _NEVER
        self._terminating = False
        self._last_error = ErrorCode.NONE

    def get(self, now_ms: float) -> Wanted:
        """Return what the client shall push. Raises Refusal THROTTLING_QUOTA_EXCEEDED if it asks too early."""
        if now_ms - max(self._last_get_ms, self._last_push_ms) >= self.wanted.interval_ms:
            self._last_get_ms = now_ms
        elif self._last_error not in _ASK_AT_ONCE:
            raise self._too_early()
        self._last_error = ErrorCode.NONE
        return self.wanted

    def push(
        self, subscription_id: int, compression: int, size: int, max_bytes: int, now_ms: float, *, terminating: bool
    ) -> None:
        """Accept a push of `size` compressed bytes. Raises Refusal."""
        try:
            self._check(subscription_id, compression, size, max_bytes, now_ms, terminating=terminating)
        except Refusal as refusal:
            self._last_error = refusal.code
            raise
        finally:
            self._terminating = terminating
        self._last_error = ErrorCode.NONE

    def failed(self, code: ErrorCode) -> None:
        """The bytes of an accepted push could not be read."""
        self._last_error = code

    def _check(
        self, subscription_id: int, compression: int, size: int, max_bytes: int, now_ms: float, *, terminating: bool
    ) -> None:
        if self._terminating:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Client [{self.instance}] sent the previous request with state terminating to TRUE, can not accept any requests after that",
            )
        if self._last_get_ms > self._last_push_ms or now_ms - self._last_push_ms >= self.wanted.interval_ms:
            self._last_push_ms = now_ms
        elif not terminating:
            raise self._too_early()
        if subscription_id != self.wanted.subscription_id:
            raise Refusal(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID, f"Unknown client subscription id for the client [{self.instance}]"
            )
        if compression not in _COMPRESSIONS:
            raise Refusal(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"Unknown compression type [{compression}] is received in telemetry request from [{self.instance}]",
            )
        if size > max_bytes:
            raise Refusal(
                ErrorCode.TELEMETRY_TOO_LARGE,
                f"Telemetry request from [{self.instance}] is larger than the maximum allowed size [{max_bytes}]",
            )

    def _too_early(self) -> Refusal:
        return Refusal(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            f"Request from the client [{self.instance}] arrived before the next push interval time",
        )
