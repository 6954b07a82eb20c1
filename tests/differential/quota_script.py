"""Requests about client quotas, each with the answer that a broker gives: one script for Apache Kafka and for ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.broker.wire import WireClient

DESCRIBE, ALTER = 48, 49

Entity = dict[str, str | None]
Steps = Iterator[tuple[str, Any]]


def alter(
    client: WireClient,
    entity: Entity,
    values: Mapping[str, float | None],
    *,
    validate_only: bool = False,
    version: int = 1,
) -> list[tuple[int, str | None]]:
    """Change the quotas of one entity; return the code and message of each entry."""
    body = {
        "entries": [
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
                "ops": [
                    {"key": key, "value": 0.0 if value is None else float(value), "remove": value is None}
                    for key, value in values.items()
                ],
            }
        ],
        "validate_only": validate_only,
    }
    answer = client.call(ALTER, version, body)
    return [(each.error_code, each.error_message) for each in answer.entries]


def describe(client: WireClient, *parts: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Any:
    """Return the quotas of the entities that match; a part is (type, how, name): 0 this name, 1 the default, 2 any."""
    body = {
        "components": [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in parts],
        "strict": strict,
    }
    answer = client.call(DESCRIBE, version, body)
    entries = answer.entries
    found = None
    if entries is not None:
        found = sorted(
            (
                sorted((part.entity_type, part.entity_name or "<default>") for part in entry.entity),
                sorted((value.key, value.value) for value in entry.values),
            )
            for entry in entries
        )
    return answer.error_code, answer.error_message, found


def remove_all(client: WireClient) -> None:
    """Remove every quota."""
    for entry in client.call(DESCRIBE, 1, {"components": [], "strict": False}).entries or ():
        entity = {part.entity_type: part.entity_name for part in entry.entity}
        assert alter(client, entity, {value.key: None for value in entry.values}) == [(0, None)]


def steps(client: WireClient) -> Steps:
    """Run the script; yield what each step did and the answer."""
    for version in (0, 1):
        yield f"nothing is set {version}", describe(client, version=version)
    rates = {"producer_byte_rate": 1_000_000, "consumer_byte_rate": 2_000_000}
    ann, bob, anyone = {"user": "ann"}, {"user": "bob", "client-id": "app"}, {"user": None}
    yield "a user", alter(client, ann, rates)
    yield "a user and a client id", alter(client, bob, {"request_percentage": 12.5})
    yield "all users", alter(client, anyone, {"controller_mutation_rate": 3})
    yield "all client ids", alter(client, {"client-id": None}, rates, version=0)
    yield "a user, all client ids", alter(client, {"user": "ann", "client-id": None}, {"producer_byte_rate": 7})
    yield "an address", alter(client, {"ip": "10.0.0.1"}, {"connection_creation_rate": 5})
    yield "all addresses", alter(client, {"ip": None}, {"connection_creation_rate": 50})
    yield "a host name", alter(client, {"ip": "localhost"}, {"connection_creation_rate": 50})
    yield "no address", alter(client, {"ip": "no such host."}, {"connection_creation_rate": 50})
    yield "only checked", alter(client, {"user": "eve"}, rates, validate_only=True)
    yield "one removed", alter(client, ann, {"consumer_byte_rate": None})
    yield "one removed that is not there", alter(client, ann, {"consumer_byte_rate": None})
    for name, entity, values in (
        ("an empty entity", {}, rates),
        ("an unknown entity", {"group": "g"}, rates),
        ("an empty name", {"user": ""}, rates),
        ("an address with a user", {"user": "ann", "ip": "10.0.0.1"}, rates),
        ("an address with an unknown type", {"ip": "10.0.0.1", "group": "g"}, rates),
        ("an unknown quota", ann, {"no_such_rate": 5}),
        ("an unknown quota removed", ann, {"no_such_rate": None}),
        ("a quota of addresses for a user", ann, {"connection_creation_rate": 5}),
        ("a quota of users for an address", {"ip": "10.0.0.1"}, rates),
        ("zero", ann, {"producer_byte_rate": 0}),
        ("negative", ann, {"request_percentage": -1}),
        ("a broken number of bytes", ann, {"producer_byte_rate": 10.5}),
        ("a broken percentage", ann, {"request_percentage": 10.5}),
        ("a broken number of connections", {"ip": "10.0.0.1"}, {"connection_creation_rate": 1.5}),
        ("too many connections", {"ip": "10.0.0.1"}, {"connection_creation_rate": 1e12}),
        ("too many bytes", ann, {"producer_byte_rate": 1e30}),
        ("almost whole", ann, {"consumer_byte_rate": 5.0000001}),
        ("endless", ann, {"request_percentage": float("inf")}),
        ("not a number", ann, {"request_percentage": float("nan")}),
        ("one good and one bad", {"user": "zoe"}, {"producer_byte_rate": 5, "no_such_rate": 1}),
        ("nothing", ann, {}),
        ("a name beyond ASCII", {"user": "anné ö&=,"}, {"producer_byte_rate": 5}),
    ):
        yield name, alter(client, entity, values)
    yield "twice in one request", _twice(client)
    yield "all", describe(client)
    yield "all, strictly", describe(client, strict=True)
    for how, match in ((0, "ann"), (1, None), (2, None), (0, "nobody"), (0, None), (1, "ann"), (2, "ann"), (3, None)):
        for strict in (False, True):
            yield f"users {how} {match} {strict}", describe(client, ("user", how, match), strict=strict)
    for strict in (False, True):
        yield f"user and client id {strict}", describe(client, ("user", 2, None), ("client-id", 2, None), strict=strict)
        yield f"default client ids {strict}", describe(client, ("client-id", 1, None), strict=strict)
        yield f"addresses {strict}", describe(client, ("ip", 2, None), strict=strict)
        yield f"an address and a user {strict}", describe(client, ("ip", 2, None), ("user", 2, None), strict=strict)
        yield f"a type twice {strict}", describe(client, ("user", 2, None), ("user", 1, None), strict=strict)
        yield f"an unknown type {strict}", describe(client, ("group", 2, None), strict=strict)
        yield f"an empty type {strict}", describe(client, ("", 2, None), strict=strict)


def _twice(client: WireClient) -> Any:
    entry = {
        "entity": [{"entity_type": "user", "entity_name": "twin"}],
        "ops": [{"key": "producer_byte_rate", "value": 5.0, "remove": False}],
    }
    twice = {**entry, "ops": [*entry["ops"], *entry["ops"]]}  # type: ignore[misc]
    same_type = {**entry, "entity": [*entry["entity"], {"entity_type": "user", "entity_name": "other"}]}  # type: ignore[misc]
    answers = []
    for entries in ([entry, entry], [twice], [same_type], []):
        answer = client.call(ALTER, 1, {"entries": entries, "validate_only": False})
        answers.append([(each.error_code, each.error_message, len(each.entity)) for each in answer.entries])
    return answers
