"""The answers of APIs whose feature this broker does not have: UNSUPPORTED_VERSION, as Apache Kafka answers while the feature is off.

A client that finds no such API in ApiVersions may wait in silence: librdkafka with group.protocol=consumer did so. A client that is refused says why."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.authorised_operations import NOT_ASKED
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import Body
from streamactors.broker.requests.request import Request

OFF: Final = ErrorCode.UNSUPPORTED_VERSION
OFF_MESSAGE: Final = "The version of API is not supported."


def not_supported(_: Request) -> Body:
    """Return an answer with one error."""
    return {"error_code": OFF}


def groups_not_supported(request: Request) -> Body:
    """Return a description with an error for each group."""
    return {"groups": [{**_NO_GROUP, "group_id": each} for each in request.message.group_ids]}


_NO_GROUP: Final = {"error_code": OFF, "authorized_operations": NOT_ASKED}
