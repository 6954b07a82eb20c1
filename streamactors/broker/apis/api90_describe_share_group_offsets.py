"""DescribeShareGroupOffsets: the offsets of share groups (KIP-932).

Versions: 0-1 (1 lag).   Authorised: anyone.   Errors: UNSUPPORTED_VERSION, always: this broker does not have share.version 1, the share groups of KIP-932.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.feature_off import OFF
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import anyone


def handle(request: Request) -> Body:
    return {"groups": [{"group_id": each.group_id, "error_code": OFF} for each in request.message.groups]}


API: Final = Api(key=90, versions=(0, 1), authorise=anyone, handle=handle)
