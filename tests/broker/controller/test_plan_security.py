"""The rules about access control entries and SCRAM credentials, with the sentences of Apache Kafka 4.1.1."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from streamactors.broker.controller.command import (
    AclFilter,
    AlterScram,
    CreateAcls,
    DeleteAcls,
    Outcome,
    ScramDeletion,
    ScramUpsert,
)
from streamactors.broker.controller.rules.plan import plan
from streamactors.broker.controller.rules.plan_security import ANY, SALT_SECRET, matches
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import BROKER_RESOURCE, ConfigRecord, FeatureLevel
from streamactors.broker.metadata.security_record import (
    AccessControlEntry,
    RemoveAccessControlEntry,
    RemoveUserScramCredential,
    UserScramCredential,
)
from streamactors.broker.security.rights import LITERAL, MATCHING_PATTERN, PREFIXED
from streamactors.broker.security.sasl.mechanism import MAX_ITERATIONS, MIN_ITERATIONS
from tests.broker.controller.clusters import after, cluster, facts

TOPIC, CLUSTER, READ, ALLOW = 2, 4, 3, 3
SHA_256, SHA_512 = 1, 2
EVERYTHING = AclFilter(ANY, None, ANY, None, None, ANY, ANY)


def entry(name: str = "orders", pattern: int = LITERAL, **other: object) -> AccessControlEntry:
    return replace(AccessControlEntry(uuid.uuid4(), TOPIC, name, pattern, "User:ann", "*", READ, ALLOW), **other)


# --- access control entries ---


def test_an_entry_that_exists_is_added_once_and_an_invalid_one_never() -> None:
    image = cluster()
    first, same, wrong, other = entry(), entry(), entry(""), entry(host="10.0.0.1")
    made = plan(facts(image), CreateAcls((first, same, wrong, wrong, other)))
    assert made.records == [first, other]
    assert [each.code for each in made.answer] == [0, 0, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, 0]
    again = plan(facts(after(image, made.records)), CreateAcls((same, entry("payments"))))
    assert [each.resource_name for each in again.records] == ["payments"]


@pytest.mark.parametrize("host", ["10.0.0.0/8", "fe80::/10", "999/99"])
@pytest.mark.parametrize("permission", [2, ALLOW])
def test_a_range_of_hosts_needs_level_32_and_is_not_kept_as_a_name_that_matches_nobody(
    host: str, permission: int
) -> None:
    # A deny for 10.0.0.0/8 was "Completed", and denied nothing.
    other = entry(host="10.0.0.1")
    old = after(cluster(), [FeatureLevel("metadata.version", 31)])
    made = plan(facts(old), CreateAcls((entry(host=host, permission_type=permission), other)))
    assert made.records == [other]
    assert [each.code for each in made.answer] == [ErrorCode.UNSUPPORTED_VERSION, ErrorCode.NONE]
    assert made.answer[0].message == "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."


def test_a_range_of_hosts_is_kept_from_level_32_on_and_a_wrong_one_is_refused() -> None:
    image = after(cluster(), [FeatureLevel("metadata.version", 32)])
    good = entry(host="10.0.0.0/8")
    made = plan(facts(image), CreateAcls((good, entry(host="10.0.0.0/33"), entry(host="999/99"))))
    assert made.records == [good]
    assert made.answer == [
        Outcome(),
        Outcome(ErrorCode.INVALID_REQUEST, "Invalid CIDR notation '10.0.0.0/33': Value [33] not in range [0,32]"),
        Outcome(ErrorCode.INVALID_REQUEST, "Invalid CIDR notation '999/99': Could not parse [999/99]"),
    ]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"resource_type": 1}, "Invalid resourceType 1"),
        ({"resource_type": 8}, "Invalid resourceType 8"),
        ({"resource_type": 7}, None),
        ({"pattern_type": MATCHING_PATTERN}, "Invalid patternType 2"),
        ({"pattern_type": PREFIXED}, None),
        ({"operation": 1}, "Invalid operation 1"),
        ({"operation": 2}, None),
        ({"operation": 15}, None),
        ({"operation": 16}, "Invalid operation 16"),
        ({"permission_type": 1}, "Invalid permissionType 1"),
        ({"permission_type": 2}, None),
        ({"permission_type": 4}, "Invalid permissionType 4"),
        ({"resource_name": ""}, "Resource name should not be empty"),
        ({"resource_type": CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_type": CLUSTER, "resource_name": "kafka-cluster"}, None),
        *(
            (
                {"principal": each},
                f"Could not parse principal from `{each}` (no colon is present separating the principal type from the principal name)",
            )
            for each in ("ann", ":ann", "User:", "")
        ),
        ({"principal": "User:a:b"}, None),
    ],
)
def test_an_entry_that_cannot_be_meant_is_refused_with_a_reason(
    change: dict[str, object], sentence: str | None
) -> None:
    made = plan(facts(cluster()), CreateAcls((entry(**change),)))
    assert [each.message for each in made.answer] == [sentence]
    assert len(made.records) == (sentence is None)


def test_each_filter_is_answered_with_its_entries_and_each_entry_is_removed_once() -> None:
    one, other = entry(), entry("payments")
    image = after(cluster(), [one, other])
    filters = (EVERYTHING._replace(resource_name="orders"), EVERYTHING, EVERYTHING._replace(resource_name="nothing"))
    made = plan(facts(image), DeleteAcls(filters))
    assert [set(each.entries) for each in made.answer] == [{one}, {one, other}, set()]
    assert made.records == [RemoveAccessControlEntry(one.id), RemoveAccessControlEntry(other.id)]
    assert after(image, made.records).acls == {}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, True),
        ({"resource_type": TOPIC}, True),
        ({"resource_type": 3}, False),
        ({"operation": READ}, True),
        ({"operation": 4}, False),
        ({"permission_type": ALLOW}, True),
        ({"permission_type": 2}, False),
        ({"principal": "User:ann"}, True),
        ({"principal": "User:bob"}, False),
        ({"host": "*"}, True),
        ({"host": "10.0.0.1"}, False),
        ({"pattern_type": LITERAL}, True),
        ({"pattern_type": PREFIXED}, False),
        ({"pattern_type": MATCHING_PATTERN}, True),
    ],
)
def test_a_filter_matches_entries_with_the_value_that_it_names(wanted: dict[str, object], found: bool) -> None:
    assert matches(EVERYTHING._replace(**wanted), entry()) == found


@pytest.mark.parametrize(
    ("kept", "pattern", "asked", "found"),
    [
        (entry("ord", PREFIXED), MATCHING_PATTERN, "orders", True),
        (entry("ord", PREFIXED), MATCHING_PATTERN, "or", False),
        (entry("ord", PREFIXED), PREFIXED, "orders", False),
        (entry("ord", PREFIXED), ANY, "orders", False),
        (entry("ord", PREFIXED), ANY, "ord", True),
        (entry("*"), MATCHING_PATTERN, "orders", True),
        (entry("*"), LITERAL, "orders", False),
        (entry("ord"), MATCHING_PATTERN, "orders", False),
        (entry("orders"), MATCHING_PATTERN, "orders", True),
    ],
)
def test_only_a_filter_of_what_holds_for_a_name_looks_at_prefixes_and_stars(
    kept: AccessControlEntry, pattern: int, asked: str, found: bool
) -> None:
    assert matches(EVERYTHING._replace(resource_name=asked, pattern_type=pattern), kept) == found


# --- SCRAM credentials ---


def upsert(name: str = "ann", mechanism: int = SHA_256, iterations: int = 4_096) -> ScramUpsert:
    return ScramUpsert(name, mechanism, iterations, b"salt", b"stored", b"server")


def credential(of: ScramUpsert) -> UserScramCredential:
    return UserScramCredential(of.name, of.mechanism, b"salt", b"stored", b"server", of.iterations)


def with_credential(of: ScramUpsert) -> MetadataImage:
    return after(cluster(), plan(facts(cluster()), AlterScram("secret", (), (of,))).records)


def test_the_first_credential_brings_the_secret_of_the_cluster_and_no_later_one() -> None:
    made = plan(facts(cluster()), AlterScram("secret", (), (upsert(),)))
    assert made.records == [credential(upsert()), ConfigRecord(BROKER_RESOURCE, "", SALT_SECRET, "secret")]
    later = plan(facts(with_credential(upsert())), AlterScram("another", (), (upsert("bob"),)))
    assert later.records == [credential(upsert("bob"))]


@pytest.mark.parametrize(
    ("change", "code", "sentence"),
    [
        (upsert(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsert(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsert(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsert(mechanism=SHA_512), ErrorCode.NONE, None),
        (upsert(iterations=MIN_ITERATIONS - 1), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsert(iterations=MIN_ITERATIONS), ErrorCode.NONE, None),
        (upsert(iterations=MAX_ITERATIONS), ErrorCode.NONE, None),
        (upsert(iterations=MAX_ITERATIONS + 1), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
    ],
)
def test_a_credential_that_cannot_be_is_refused_with_a_reason(
    change: ScramUpsert, code: ErrorCode, sentence: str | None
) -> None:
    made = plan(facts(cluster()), AlterScram("secret", (), (change,)))
    outcome = made.answer[change.name]
    assert (outcome.code, outcome.message) == (code, sentence)
    assert (credential(change) in made.records) == (sentence is None)
    assert bool(made.records) == (sentence is None)


def test_a_credential_that_exists_is_removed_and_another_one_is_not_found() -> None:
    image = with_credential(upsert())
    made = plan(facts(image), AlterScram("secret", (ScramDeletion("ann", SHA_256), ScramDeletion("bob", SHA_256))))
    assert made.records == [RemoveUserScramCredential("ann", SHA_256)]
    assert made.answer["ann"].code is ErrorCode.NONE
    assert made.answer["bob"].code is ErrorCode.RESOURCE_NOT_FOUND


def test_the_changes_of_a_user_succeed_or_fail_together() -> None:
    image = with_credential(upsert())
    twice = plan(facts(image), AlterScram("secret", (ScramDeletion("ann", SHA_256),), (upsert(), upsert("bob"))))
    assert twice.answer["ann"].code is ErrorCode.DUPLICATE_RESOURCE
    assert twice.records == [credential(upsert("bob"))]
    both = plan(facts(image), AlterScram("secret", (ScramDeletion("ann", SHA_256),), (upsert(mechanism=SHA_512),)))
    assert len(both.records) == 2
    assert both.answer["ann"].code is ErrorCode.NONE
