"""The messages of Apache Kafka 4.4 that kio 0.6 does not have: newer versions of an API, and whole APIs.

Owner: `schema.py`. A newer version is described as a change of the version before it. Source: the message definitions in the jar
kafka-clients 4.4.0; `tests/differential/test_messages.py` compares every byte with Apache Kafka's own encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from streamactors.broker.protocol.structures import NO_DEFAULT, Direction, FieldSchema, StructSchema

Change = Callable[[StructSchema], StructSchema]


def _field(
    name: str,
    kind: str | StructSchema,
    *,
    array: bool = False,
    nullable: bool = False,
    default: Any = NO_DEFAULT,
) -> FieldSchema:
    if nullable and default is NO_DEFAULT:
        default = None
    return FieldSchema(name=name, type=kind, is_array=array, nullable=nullable, tag=None, default=default)


def _struct(name: str, *fields: FieldSchema) -> StructSchema:
    return StructSchema(name=name, flexible=True, fields=fields)


def _same(before: StructSchema) -> StructSchema:
    return before


def _with(*added: FieldSchema, after: str | None = None, without: Iterable[str] = ()) -> Change:
    """Return a change that adds fields, at the end or after one, and takes fields out."""

    def change(before: StructSchema) -> StructSchema:
        kept = [each for each in before.fields if each.name not in without]
        at = len(kept) if after is None else [each.name for each in kept].index(after) + 1
        return replace(before, fields=(*kept[:at], *added, *kept[at:]))

    return change


def _within(name: str, inner: Change) -> Change:
    """Return a change of the struct that a field holds."""

    def change(before: StructSchema) -> StructSchema:
        return replace(before, fields=tuple(changed(each) if each.name == name else each for each in before.fields))

    def changed(field: FieldSchema) -> FieldSchema:
        assert isinstance(field.type, StructSchema)
        return replace(field, type=inner(field.type))

    return change


def _all(*changes: Change) -> Change:
    def change(before: StructSchema) -> StructSchema:
        for each in changes:
            before = each(before)
        return before

    return change


_TOPIC_ID: Final = _within("topics", _with(_field("topic_id", "uuid"), after="name"))
_NO_NAME: Final = _within("topics", _with(without=("name",)))

_NODE: Final = _struct(
    "TopologyDescriptionNode",
    _field("name", "string"),
    _field("node_type", "int8"),
    _field("source_topics", "string", array=True),
    _field("sink_topic", "string", nullable=True),
    _field("stores", "string", array=True),
    _field("successors", "string", array=True),
)
_DESCRIPTION: Final = _struct(
    "TopologyDescription",
    _field(
        "subtopologies",
        _struct(
            "TopologyDescriptionSubtopology", _field("subtopology_id", "string"), _field("nodes", _NODE, array=True)
        ),
        array=True,
    ),
    _field(
        "global_stores",
        _struct("TopologyDescriptionGlobalStore", _field("source", _NODE), _field("processor", _NODE)),
        array=True,
    ),
)

NEWER: Final[dict[tuple[int, int, Direction], Change]] = {
    # KIP-1242: the node that the client means to reach
    (18, 5, "request"): _with(_field("cluster_id", "string", nullable=True), _field("node_id", "int32", default=-1)),
    (18, 5, "response"): _same,
    # KIP-1319: topics by id
    (28, 6, "request"): _all(_TOPIC_ID, _NO_NAME),
    (28, 6, "response"): _all(_TOPIC_ID, _NO_NAME),
    (42, 3, "request"): _same,
    (42, 3, "response"): _within("results", _with(_field("error_message", "string", nullable=True))),
    # KIP-1331: descriptions of topologies
    (88, 1, "request"): _same,
    (88, 1, "response"): _all(
        _with(without=("acceptable_recovery_lag",)),
        _with(_field("acceptable_recovery_lag", "int64", default=-1), after="task_offset_interval_ms"),
        _with(_field("topology_description_required", "bool", default=False), after="warmup_tasks"),
    ),
    (89, 1, "request"): _with(_field("include_topology_description", "bool", default=False)),
    (89, 1, "response"): _within(
        "groups",
        _with(
            _field("topology_description", _DESCRIPTION, nullable=True),
            _field("topology_description_status", "int8", default=0),
            _field("assignor_name", "string", nullable=True),
        ),
    ),
}
"""By API key, version and direction: what the version changes of the one before."""

WHOLE: Final[dict[tuple[int, int, Direction], StructSchema]] = {
    (93, 0, "request"): _struct(
        "StreamsGroupTopologyDescriptionUpdateRequest",
        _field("group_id", "string"),
        _field("member_id", "string"),
        _field("topology_epoch", "int32"),
        _field("topology_description", _DESCRIPTION),
    ),
    (93, 0, "response"): _struct(
        "StreamsGroupTopologyDescriptionUpdateResponse",
        _field("throttle_time_ms", "int32"),
        _field("error_code", "int16"),
        _field("error_message", "string", nullable=True),
    ),
    (94, 0, "request"): _struct("UnregisterControllerRequest", _field("controller_id", "int32")),
    (94, 0, "response"): _struct(
        "UnregisterControllerResponse",
        _field("throttle_time_ms", "int32"),
        _field("error_code", "int16"),
        _field("error_message", "string", nullable=True),
    ),
}
"""By API key, version and direction: the messages of APIs that kio does not have at all."""
