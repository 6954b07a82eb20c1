"""The common part of DescribeAcls, CreateAcls and DeleteAcls: their answer without an authoriser, and entries on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from streamactors.broker.controller.command import AclFilter
from streamactors.broker.metadata.security_record import AccessControlEntry

NO_AUTHORISER: Final = "No Authorizer is configured."
_ANY: Final = 1
_LITERAL: Final = 3


def filter_of(message: Any, version: int) -> AclFilter:
    """Return the filter of a request. Before version 1 there are literal patterns only."""
    return AclFilter(
        message.resource_type_filter,
        message.resource_name_filter,
        message.pattern_type_filter if version >= 1 else _LITERAL,
        message.principal_filter,
        message.host_filter,
        message.operation,
        message.permission_type,
    )


def why_no_filter(wanted: AclFilter) -> str | None:
    """Return why a filter is invalid, None if it is valid."""
    if not _ANY <= wanted.resource_type <= 7 or not _ANY <= wanted.pattern_type <= 4:
        return f"the filter has an unknown resource type {wanted.resource_type} or pattern type {wanted.pattern_type}"
    if not _ANY <= wanted.operation <= 15 or not _ANY <= wanted.permission_type <= 3:
        return f"the filter has an unknown operation {wanted.operation} or permission {wanted.permission_type}"
    return None


def by_resource(entries: Iterable[AccessControlEntry]) -> list[dict[str, Any]]:
    """Return the resources of DescribeAcls, each with its entries."""
    found: dict[tuple[int, str, int], list[dict[str, Any]]] = {}
    for entry in entries:
        key = (entry.resource_type, entry.resource_name, entry.pattern_type)
        found.setdefault(key, []).append(
            {
                "principal": entry.principal,
                "host": entry.host,
                "operation": entry.operation,
                "permission_type": entry.permission_type,
            }
        )
    return [
        {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": acls}
        for (kind, name, pattern), acls in found.items()
    ]
