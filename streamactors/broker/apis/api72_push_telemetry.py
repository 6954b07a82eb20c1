"""PushTelemetry: a client pushes the metrics that it was asked for (KIP-714).

Versions: 0.   Authorised: anyone.
Errors: INVALID_REQUEST (no client instance id, or a push after the last one), THROTTLING_QUOTA_EXCEEDED (pushed again before the interval is over),
UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE, INVALID_RECORD (the metrics cannot be read).
Differs from Apache Kafka: the receiver is the broker's own /metrics; the two APIs are listed if it is served."""

from __future__ import annotations

import logging
from typing import Final

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import anyone
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.broker.telemetry")


def handle(request: Request) -> Body:
    try:
        request.node.telemetry.push(request, request.message.client_instance_id)
    except Refusal as refusal:
        if refusal.code == ErrorCode.INVALID_RECORD:
            log_limited(
                _log,
                logging.WARNING,
                request.client_id,
                "metrics of client %r are not shown: %s",
                request.client_id,
                refusal,
            )
        return {"error_code": refusal.code}
    return {"error_code": ErrorCode.NONE}


API: Final = Api(key=72, versions=(0, 0), authorise=anyone, handle=handle)
