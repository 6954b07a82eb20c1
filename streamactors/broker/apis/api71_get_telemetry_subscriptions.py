"""GetTelemetrySubscriptions: which of its metrics a client shall push, and how often (KIP-714).

Versions: 0.   Authorised: anyone.
Errors: THROTTLING_QUOTA_EXCEEDED (asked again before the interval is over).
Differs from Apache Kafka: the receiver is the broker's own /metrics; the two APIs are listed if it is served. Clients are asked for totals, not for
differences, because /metrics shows totals."""

from __future__ import annotations

from typing import Final

from streamactors.broker.errors import Refusal
from streamactors.broker.records.compression import Compression
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import anyone

_ACCEPTED: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)


def handle(request: Request) -> Body:
    try:
        instance, wanted = request.node.telemetry.get(request, request.message.client_instance_id)
    except Refusal as refusal:
        return {"error_code": refusal.code}
    return {
        "client_instance_id": instance,
        "subscription_id": wanted.subscription_id,
        "accepted_compression_types": _ACCEPTED,
        "push_interval_ms": wanted.interval_ms,
        "telemetry_max_bytes": request.node.config.telemetry_max_bytes,
        "delta_temporality": False,
        "requested_metrics": wanted.metrics,
    }


API: Final = Api(key=71, versions=(0, 0), authorise=anyone, handle=handle)
