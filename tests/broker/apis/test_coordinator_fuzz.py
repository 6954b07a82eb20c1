"""Random field values in every message of the group, share and transaction APIs: an answer for each, and nobody else's state changes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.broker import Cluster, apis
from streamactors.broker.errors import ErrorCode
from streamactors.broker.protocol.schema import load_struct
from streamactors.broker.protocol.structures import FieldSchema, StructSchema
from streamactors.broker.requests.api import Routes
from tests.broker.apis.test_group_apis import commit, fetch, join, sync
from tests.broker.apis.transaction_client import Producer, describe
from tests.broker.wire import WireClient

E = ErrorCode
OF_COORDINATORS: Final = (
    *(8, 9, 10, 11, 12, 13, 14, 15, 16, 22, 24, 25, 26, 27, 28, 42, 47, 65, 66, 68, 69, 71, 72),
    *(76, 77, 78, 79, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93),
)
KEYS: Final = {key: range(low, high + 1) for key, low, high in Routes.of_package(apis).ranges if key in OF_COORDINATORS}
"""The APIs of groups, share groups, streams groups and transactions, in every version that is served."""

INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
GROUP, MEMBER_GROUP, TX, TOPIC = "precious", "precious-members", "precious-tx", "t"
# Names the broker knows, names it does not, and names nobody should send.
NAMES = st.sampled_from(
    [GROUP, MEMBER_GROUP, TX, TOPIC, "__consumer_offsets", "consumer", "", "\x00", "ü" * 300]
) | st.text(max_size=8)


def integers(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    if not signed:
        return st.sampled_from([0, 1, 2, (1 << bits) - 1]) | st.integers(0, (1 << bits) - 1)
    edge = 1 << (bits - 1)
    return st.sampled_from([-1, 0, 1, 2, 5, edge - 1, -edge]) | st.integers(-edge, edge - 1)


def values(field: FieldSchema) -> st.SearchStrategy[Any]:
    one = of_type(field)
    many = st.lists(one, max_size=3) if field.is_array else one
    return st.none() | many if field.nullable else many


def of_type(field: FieldSchema) -> st.SearchStrategy[Any]:
    if isinstance(field.type, StructSchema):
        return bodies(field.type)
    if field.type in INTEGERS:
        return integers(INTEGERS[field.type], signed=field.type.startswith("int"))
    match field.type:
        case "bool":
            return st.booleans()
        case "string":
            return NAMES
        case "bytes":
            return st.binary(max_size=30)
        case "uuid":
            return st.none() | st.just(uuid.UUID(int=7))
        case _:
            raise AssertionError(f"no strategy for {field.type}")


def bodies(struct: StructSchema) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({field.name: values(field) for field in struct.fields})


@st.composite
def requests(draw: st.DrawFn) -> tuple[int, int, dict[str, Any]]:
    key = draw(st.sampled_from(sorted(KEYS)))
    version = draw(st.sampled_from(KEYS[key]))
    return key, version, draw(bodies(load_struct(key, version, "request")))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(config={"group.min.session.timeout.ms": 1, "group.max.session.timeout.ms": 2**31 - 1}) as cluster:
        cluster.create_topic(TOPIC, 2)
        yield cluster


class Precious:
    """A group with offsets, a group with a member, and an open transaction, which no fuzzed message may touch."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        for kind in (0, 1):
            client.call(10, 3, {"key": "any", "key_type": kind})
        assert commit(client, GROUP, TOPIC) == [E.NONE]
        self.joined = join(client, MEMBER_GROUP, group_instance_id="i", session_timeout_ms=2**31 - 1)
        assert sync(client, MEMBER_GROUP, self.joined, group_instance_id="i").error_code == E.NONE
        self.producer = Producer(client, TX, timeout_ms=900_000)
        self.producer.add(TOPIC, 0)

    def assert_untouched(self) -> None:
        beat = {
            "group_id": MEMBER_GROUP,
            "generation_id": self.joined.generation_id,
            "member_id": self.joined.member_id,
            "group_instance_id": "i",
        }
        assert self.client.call(12, 4, beat).error_code == E.NONE
        txn = describe(self.client, TX)
        assert (txn.transaction_state, txn.producer_id, txn.producer_epoch) == (
            "Ongoing",
            self.producer.producer_id,
            self.producer.epoch,
        )


def legal(key: int, body: dict[str, Any], precious: Precious) -> bool:
    """Whether a request, by luck, is one that may change what is precious."""
    if key == 22:
        return bool(body["transactional_id"] == TX)
    if key == 26 and body["transactional_id"] == TX:
        # A first producer's id and epoch are both 0, which is soon guessed.
        return precious.producer.identity.items() <= body.items()
    if key == 11 and body["group_id"] == MEMBER_GROUP:
        return body.get("group_instance_id") == "i"
    if key == 68 and body["group_id"] == MEMBER_GROUP:
        return bool(body["member_epoch"] == 0)  # a member of the new protocol may convert the group (KIP-848)
    if key == 13 and body["group_id"] == MEMBER_GROUP:
        return any(member["group_instance_id"] == "i" for member in body.get("members", ()))
    return False


def fuzz(cluster: Cluster, count: int) -> None:
    host, port = cluster.bootstrap_servers.split(":")
    with WireClient(host, int(port)) as owner:
        precious = Precious(owner)

        @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))
        @given(requests())
        def send(request: tuple[int, int, dict[str, Any]]) -> None:
            key, version, body = request
            if legal(key, body, precious):
                return
            if key == 11 and body["group_id"] != MEMBER_GROUP:
                body["group_id"] = f"{body['group_id'][:200]}-{uuid.uuid4()}"  # a second newcomer would rightly wait
            with WireClient(host, int(port)) as client:
                client.call(key, version, body)
            precious.assert_untouched()

        send()
        assert fetch(owner, GROUP, TOPIC)[0][1] == E.NONE


def test_random_field_values(cluster: Cluster) -> None:
    fuzz(cluster, 250)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_random_field_values_for_minutes(cluster: Cluster) -> None:
    fuzz(cluster, 30_000)
