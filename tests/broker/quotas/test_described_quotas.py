"""Which quotas DescribeClientQuotas finds, and which filters it refuses: the rules of Apache Kafka."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.apis.api48_describe_client_quotas import handle
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.security_record import QuotaEntity

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
ENTITIES: dict[str, tuple[tuple[str, str | None], ...]] = {
    "a": (("user", "a"),),
    "b": (("user", "b"),),
    "any user": (("user", None),),
    "c": (("client-id", "c"),),
    "a on c": (("user", "a"), ("client-id", "c")),
    "a on any": (("user", "a"), ("client-id", None)),
    "host": (("ip", "10.0.0.1"),),
}


def described(*components: tuple[str, int, str | None], strict: bool = False) -> Any:
    quotas = {frozenset(QuotaEntity(*each) for each in entity): {"rate": 1.0} for entity in ENTITIES.values()}
    asked = [SimpleNamespace(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    request: Any = SimpleNamespace(
        message=SimpleNamespace(components=asked, strict=strict),
        node=SimpleNamespace(metadata=SimpleNamespace(image=SimpleNamespace(quotas=quotas))),
    )
    return handle(request)


def names(answer: Any) -> set[str]:
    assert answer["error_code"] == ErrorCode.NONE
    found = [{(each["entity_type"], each["entity_name"]) for each in entry["entity"]} for entry in answer["entries"]]
    return {name for name, entity in ENTITIES.items() if set(entity) in found}


@pytest.mark.parametrize(
    ("components", "loose", "strict"),
    [
        ([], set(ENTITIES), set()),
        ([("user", EXACT, "a")], {"a", "a on c", "a on any"}, {"a"}),
        ([("user", DEFAULT, None)], {"any user"}, {"any user"}),
        ([("user", SPECIFIED, None)], {"a", "b", "any user", "a on c", "a on any"}, {"a", "b", "any user"}),
        ([("client-id", SPECIFIED, None)], {"c", "a on c", "a on any"}, {"c"}),
        ([("user", EXACT, "a"), ("client-id", SPECIFIED, None)], {"a on c", "a on any"}, {"a on c", "a on any"}),
        ([("user", SPECIFIED, None), ("client-id", DEFAULT, None)], {"a on any"}, {"a on any"}),
        ([("ip", EXACT, "10.0.0.1")], {"host"}, {"host"}),
        ([("user", EXACT, "nobody")], set(), set()),
    ],
)
def test_a_filter_finds_its_entities(components: list[Any], loose: set[str], strict: set[str]) -> None:
    assert names(described(*components)) == loose
    assert names(described(*components, strict=True)) == strict


@pytest.mark.parametrize(
    ("components", "code", "text"),
    [
        ([("user", EXACT, "a"), ("user", DEFAULT, None)], ErrorCode.INVALID_REQUEST, "user cannot appear more than once"),
        ([("", EXACT, "a")], ErrorCode.INVALID_REQUEST, "empty entity type"),
        ([("colour", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type colour"),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST, "Unknown match type 3"),
        ([("user", -1, None)], ErrorCode.INVALID_REQUEST, "Unknown match type -1"),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST, "MATCH_TYPE_EXACT, but set match string to null"),
        ([("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST, "MATCH_TYPE_DEFAULT, but also specified a match string"),
        ([("user", SPECIFIED, "a")], ErrorCode.INVALID_REQUEST, "MATCH_TYPE_SPECIFIED, but also specified"),
        ([("ip", EXACT, "h"), ("user", EXACT, "a")], ErrorCode.INVALID_REQUEST, "IP filter component should not be used"),
    ],
)  # fmt: skip
def test_a_filter_that_cannot_be_is_refused_in_kafkas_words(components: list[Any], code: ErrorCode, text: str) -> None:
    answer = described(*components)
    assert (answer["error_code"], answer["entries"]) == (code, None)
    assert text in answer["error_message"]
