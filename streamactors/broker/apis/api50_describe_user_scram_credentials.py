"""DescribeUserScramCredentials: the users with SCRAM credentials, their mechanisms and iterations; never salts or keys.

Versions: 0 (flexible).   Authorised: DESCRIBE CLUSTER.
Errors: RESOURCE_NOT_FOUND for a user without one, DUPLICATE_RESOURCE for a user named twice.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import NOT_ALLOWED, describe_cluster


def handle(request: Request) -> Body:
    known: dict[str, list[dict[str, int]]] = {}
    for (user, mechanism), credential in request.node.metadata.image.scram.items():
        known.setdefault(user, []).append({"mechanism": mechanism, "iterations": credential.iterations})
    asked = request.message.users
    names = Counter([each.name for each in asked] if asked else list(known))
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "results": [_result(user, times, known.get(user)) for user, times in names.items()],
    }


def _result(user: str, times: int, found: list[dict[str, int]] | None) -> dict[str, Any]:
    code, message = ErrorCode.NONE, None
    if times > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    elif found is None:
        code = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {user}"
    infos = found if code == ErrorCode.NONE else ()
    return {"user": user, "error_code": code, "error_message": message, "credential_infos": infos}


def refuse(request: Request, code: ErrorCode) -> Body:
    text = NOT_ALLOWED.get(code)
    result = {"user": "", "error_code": code, "error_message": text, "credential_infos": ()}
    return {"error_code": code, "error_message": text, "results": [result]}


API: Final = Api(key=50, versions=(0, 0), authorise=describe_cluster, handle=handle, refuse=refuse, on_controllers=True)
