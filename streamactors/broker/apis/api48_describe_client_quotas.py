"""DescribeClientQuotas: the quotas of users, client ids and addresses that match a filter.

Versions: 0-1 (1 flexible).   Authorised: DESCRIBE_CONFIGS CLUSTER.
Errors: INVALID_REQUEST for an invalid filter, UNSUPPORTED_VERSION for an unknown type of entity.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from streamactors.broker.controller.rules.plan_quotas import CLIENT_ID, ENTITY_TYPES, IP, USER
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.security_record import QuotaEntity
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import describe_cluster_configs

_EXACT: Final = 0
_DEFAULT: Final = 1
_SPECIFIED: Final = 2
_HOW: Final = {_EXACT: "MATCH_TYPE_EXACT", _DEFAULT: "MATCH_TYPE_DEFAULT", _SPECIFIED: "MATCH_TYPE_SPECIFIED"}


def handle(request: Request) -> Body:
    components, strict = request.message.components, request.message.strict
    wrong = _why_not(components)
    if wrong is not None:
        code, text = wrong
        return {"error_code": code, "error_message": text, "entries": None}
    found = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in sorted(entity, key=str)],
            "values": [{"key": key, "value": value} for key, value in values.items()],
        }
        for entity, values in request.node.metadata.image.quotas.items()
        if _matches(entity, components, strict)
    ]
    return {"error_code": ErrorCode.NONE, "error_message": "", "entries": found}


def _why_not(components: Iterable[Any]) -> tuple[ErrorCode, str] | None:
    seen: set[str] = set()
    for each in components:
        kind, how, name = each.entity_type, each.match_type, each.match
        if kind in seen:
            return ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter."
        if not kind:
            return ErrorCode.INVALID_REQUEST, "Invalid empty entity type."
        if kind not in ENTITY_TYPES:
            return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}"
        if how not in _HOW:
            return ErrorCode.INVALID_REQUEST, f"Unknown match type {how}"
        if how == _EXACT and name is None:
            return ErrorCode.INVALID_REQUEST, f"Request specified {_HOW[how]}, but set match string to null."
        if how != _EXACT and name is not None:
            return ErrorCode.INVALID_REQUEST, f"Request specified {_HOW[how]}, but also specified a match string."
        seen.add(kind)
    if IP in seen and seen & {USER, CLIENT_ID}:
        return (
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component.",
        )
    return None


def _matches(entity: frozenset[QuotaEntity], components: Any, strict: bool) -> bool:
    names = dict(entity)
    for each in components:
        if each.entity_type not in names:
            return False
        name = names[each.entity_type]
        if (each.match_type == _EXACT and name != each.match) or (each.match_type == _DEFAULT and name is not None):
            return False
    return not strict or len(names) == len(components)


API: Final = Api(key=48, versions=(0, 1), authorise=describe_cluster_configs, handle=handle)
