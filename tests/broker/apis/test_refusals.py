"""A refusal of any API, in any version, is an answer that its client can read: it has the error, and names everything that was asked."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from streamactors.broker import apis, controller_apis
from streamactors.broker.errors import ErrorCode
from streamactors.broker.protocol.errors import MalformedMessage
from streamactors.broker.protocol.header import response_frame
from streamactors.broker.protocol.messages import decode_response, encode_request
from streamactors.broker.protocol.schema import load_struct
from streamactors.broker.protocol.structures import StructSchema
from streamactors.broker.requests.api import Api, Routes
from streamactors.broker.requests.request import Request
from tests.broker.protocol.random_bodies import bodies

ROUTES = {"apis": Routes.of_package(apis), "controller_apis": Routes.of_package(controller_apis)}
# Produce and Fetch have codecs of their own: tests/broker/protocol/test_produce_fetch_refusals.py
ALL = [(package, key) for package, routes in ROUTES.items() for key, *_ in routes.ranges if key > 1]


class Caught(Request):
    """Keeps its answer instead of sending it."""

    __slots__ = ("closed", "frame")

    def _finish(self, parts: Any) -> None:
        self.answered = True
        self.frame = b"".join(bytes(part) for part in parts)


def request_of(api: Api, version: int, body: dict[str, Any]) -> Caught:
    data = encode_request(api.key, version, body)
    node: Any = SimpleNamespace(
        data_plane=SimpleNamespace(in_thread=lambda: True),
        charging=None,
        node_id=1,
        leader_id=2,
        controllers={2: ("leader", 9_093)},
        controller_listener=None,
    )
    reasons: list[str] = []
    connection: Any = SimpleNamespace(close=reasons.append, principal="User:a", host="h")
    request = Caught(node, connection, (api.key, version, 7, "client", 0), api, len(data), 0.0)
    request.closed = reasons
    request.decode(memoryview(data))
    return request


def answer_of(api: Api, version: int, frame: bytes) -> Any:
    empty = b"".join(bytes(part) for part in [response_frame(api.key, version, 7, b"")])
    assert frame[4 : len(empty)] == empty[4:]  # the correlation id
    return decode_response(api.key, version, memoryview(frame), len(empty))


def scalars(
    value: Any, struct: StructSchema, names: frozenset[str] | None = None, *, top: bool = True
) -> Iterator[Any]:
    """Yield the texts, numbers and ids of the fields with these names; None: of all fields. `top`: also those that are in no list."""
    for field in struct.fields:
        inner = getattr(value, field.name)
        many = inner if field.is_array and inner is not None else [inner]
        if not isinstance(field.type, StructSchema):
            if (names is None or field.name in names) and (top or field.is_array):
                yield from many
        elif names is None or field.name not in DETAILS:
            for each in many:
                if each is not None:
                    yield from scalars(each, field.type, names, top=top or field.is_array)


IDENTITIES = frozenset(
    ["name", "names", "topic_name", "topic_names", "topic_id", "partition", "partitions", "partition_index", "partition_indexes", "group_id",
     "group_ids", "groups", "groups_names", "transactional_id", "transactional_ids", "resource_name", "resources", "user"]
)  # fmt: skip
"""Fields that say what a request is about."""
DETAILS = frozenset(["assignments", "configs", "cursor"])
"""Parts of a request that its answer does not repeat."""


@pytest.mark.parametrize(("package", "key"), ALL)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_refusal_has_its_error_and_what_was_asked(package: str, key: int, data: st.DataObject) -> None:
    api = ROUTES[package].get(key)
    assert api is not None
    version = data.draw(st.sampled_from(sorted(set(api.versions))))
    asked_struct, answer_struct = load_struct(key, version, "request"), load_struct(key, version, "response")
    code = data.draw(
        st.sampled_from(
            [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        )
    )
    try:
        request = request_of(api, version, data.draw(bodies(asked_struct)))
    except MalformedMessage:
        assume(False)
    request.refuse(code)
    if request.closed:  # its answer has no place for an error
        assert api.refuse is None
        assert not any(field.name == "error_code" for field in answer_struct.fields)
        return
    answer = answer_of(api, version, request.frame)
    assert set(scalars(answer, answer_struct, frozenset(["error_code"]))) <= {code, 0}
    assert set(scalars(answer, answer_struct, frozenset(["throttle_time_ms"]))) <= {0}
    asked, named = set(scalars(request.message, asked_struct)), set(scalars(answer, answer_struct, IDENTITIES))
    assert named <= asked | {"", None, -1}
    if named - {"", None}:
        # of OffsetFetch, a group with an error has no topics
        names = IDENTITIES - {"name", "topic_id", "partition_indexes"} if key == 9 and version >= 8 else IDENTITIES
        assert set(scalars(request.message, asked_struct, names, top=False)) <= named | {"", None}
