"""The authoriser against an independent model of Kafka's rules, and the rules one by one."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.broker.controller.command import AclFilter
from streamactors.broker.controller.rules.plan_security import matches
from streamactors.broker.metadata.security_record import AccessControlEntry
from streamactors.broker.security.acl_authoriser import AclAuthoriser, super_users_of
from streamactors.broker.security.rights import Operation, ResourceType

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
DENY, ALLOW, LITERAL, PREFIXED = 2, 3, 3, 4
ANN, BOB = "User:ann", "User:bob"


def entry(principal=ANN, operation=Operation.READ, name="t", permission=ALLOW, pattern=LITERAL, host="*", kind=TOPIC):
    return AccessControlEntry(uuid.uuid4(), kind, name, pattern, principal, host, operation, permission)


def authoriser(*entries, everyone=False, supers=()):
    made = AclAuthoriser(supers, everyone_without_entries=everyone)
    made.use(entries)
    return made


def may(made, operation=Operation.READ, name="t", principal=ANN, host="1.2.3.4", kind=TOPIC):
    return made.allowed(principal, host, operation, kind, name)


def test_without_an_entry_nothing_is_allowed_but_to_super_users() -> None:
    made = authoriser(supers=super_users_of("User:root; User:x"))
    assert not may(made)
    assert may(made, principal="User:root")
    assert may(made, principal="User:x")


def test_a_deny_beats_every_allow() -> None:
    made = authoriser(entry(), entry(permission=DENY, name="*"), entry(operation=Operation.ALL))
    assert not may(made)
    assert may(authoriser(entry(), entry(permission=DENY, host="9.9.9.9")))


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_what_implies_describe_when_it_allows_and_not_when_it_denies(operation: Operation) -> None:
    assert may(authoriser(entry(operation=operation)), Operation.DESCRIBE)
    assert may(
        authoriser(entry(operation=operation, permission=DENY), entry(operation=Operation.DESCRIBE)), Operation.DESCRIBE
    )


def test_a_prefix_holds_for_names_that_begin_with_it() -> None:
    made = authoriser(entry(name="orders-", pattern=PREFIXED))
    assert may(made, name="orders-eu")
    assert may(made, name="orders-")
    assert not may(made, name="order")


def test_everyone_may_what_no_entry_names() -> None:
    made = authoriser(entry(name="t"), everyone=True)
    assert may(made, name="u", principal=BOB)
    assert not may(made, name="t", principal=BOB)


def test_a_right_to_write_any_topic() -> None:
    def any_topic(*entries):
        return authoriser(*entries).allowed_on_any(ANN, "h", Operation.WRITE, TOPIC)

    write = entry(operation=Operation.WRITE)
    assert any_topic(write)
    assert not any_topic(entry())
    assert not any_topic(write, entry(operation=Operation.WRITE, permission=DENY))
    assert not any_topic(write, entry(operation=Operation.ALL, permission=DENY, name="*"))
    assert not any_topic(
        entry(operation=Operation.WRITE, name="ab", pattern=PREFIXED),
        entry(operation=Operation.WRITE, name="a", pattern=PREFIXED, permission=DENY),
    )
    assert any_topic(write, entry(operation=Operation.WRITE, name="x", permission=DENY))


def test_a_change_of_the_entries_is_seen_at_once() -> None:
    made = authoriser()
    assert not may(made)
    made.use([entry()])
    assert may(made)
    made.use([])
    assert not may(made)


# ---- the model: Kafka's rules said another way ----

NAMES = st.sampled_from(["a", "ab", "abc", "b", "*"])
OPERATIONS = st.sampled_from(
    [
        Operation.ALL,
        Operation.READ,
        Operation.WRITE,
        Operation.DESCRIBE,
        Operation.ALTER_CONFIGS,
        Operation.DESCRIBE_CONFIGS,
    ]
)
ENTRIES = st.lists(
    st.builds(
        entry,
        principal=st.sampled_from([ANN, BOB, "User:*"]),
        operation=OPERATIONS,
        name=NAMES,
        permission=st.sampled_from([DENY, ALLOW]),
        pattern=st.sampled_from([LITERAL, PREFIXED]),
        host=st.sampled_from(["*", "h1", "h2"]),
        kind=st.sampled_from([TOPIC, GROUP]),
    ),
    max_size=8,
)


def model(entries, principal, host, operation, kind, name, everyone):
    on_resource = [
        e
        for e in entries
        if e.resource_type == kind
        and (
            (e.pattern_type == LITERAL and e.resource_name in (name, "*"))
            or (e.pattern_type == PREFIXED and name[: len(e.resource_name)] == e.resource_name)
        )
    ]
    if not on_resource:
        return everyone
    weaker = {
        Operation.DESCRIBE: [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER],
        Operation.DESCRIBE_CONFIGS: [Operation.ALTER_CONFIGS],
    }
    mine = [e for e in on_resource if e.principal in (principal, "User:*") and e.host in (host, "*")]
    if any(e.permission_type == DENY and e.operation in (operation, Operation.ALL) for e in mine):
        return False
    enough = [operation, Operation.ALL, *weaker.get(operation, [])]
    return any(e.permission_type == ALLOW and e.operation in enough for e in mine)


@settings(max_examples=400)
@given(ENTRIES, st.sampled_from([ANN, BOB]), st.sampled_from(["h1", "h2"]), OPERATIONS, NAMES, st.booleans())
def test_the_verdict_is_the_models(entries, principal, host, operation, name, everyone) -> None:
    if operation == Operation.ALL or name == "*":
        return
    made = authoriser(*entries, everyone=everyone)
    expected = model(entries, principal, host, operation, TOPIC, name, everyone)
    assert made.allowed(principal, host, operation, TOPIC, name) == expected
    assert made.allowed(principal, host, operation, TOPIC, name) == expected, "remembered"


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        (1, None, {"t", "t*", "*", "u"}),
        (3, "t", {"t"}),
        (4, "t", {"t*"}),
        (2, "t", {"t", "t*", "*"}),
        (2, "tx", {"t*", "*"}),
        (1, "t", {"t", "t*"}),
        (3, None, {"t", "*", "u"}),
    ],
)
def test_filters(pattern: int, name: str | None, found: set[str]) -> None:
    entries = {"t": entry(), "t*": entry(pattern=PREFIXED), "*": entry(name="*"), "u": entry(name="u")}
    wanted = AclFilter(1, name, pattern, None, None, 1, 1)
    assert {label for label, each in entries.items() if matches(wanted, each)} == found


def test_operations_and_resource_types_have_the_numbers_of_apache_kafka() -> None:
    # AclOperation and ResourceType of its Java client; requests and metadata records carry these numbers
    operations = "UNKNOWN ANY ALL READ WRITE CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS"
    newer = "IDEMPOTENT_WRITE CREATE_TOKENS DESCRIBE_TOKENS TWO_PHASE_COMMIT"
    assert [(each.name, int(each)) for each in Operation] == [
        (name, number) for number, name in enumerate(f"{operations} {newer}".split())
    ]
    types = "UNKNOWN ANY TOPIC GROUP CLUSTER TRANSACTIONAL_ID DELEGATION_TOKEN USER"
    assert [(each.name, int(each)) for each in ResourceType] == [(n, at) for at, n in enumerate(types.split())]


def test_an_entry_for_a_range_of_hosts_denies_and_allows_the_clients_in_it() -> None:
    made = authoriser(entry(host="*"), entry(permission=DENY, host="10.0.0.0/8"))
    assert may(made, host="11.0.0.1")
    assert not may(made, host="10.200.0.1")
    made.use([entry(host="fe80::/10")])
    assert may(made, host="fe80::7")
    assert not may(made, host="10.200.0.1")


def test_a_host_of_an_earlier_version_that_is_no_range_is_named_once(caplog) -> None:
    made = authoriser(old := entry(permission=DENY, host="999/99"))
    made.use([old])
    assert caplog.text.count("on t for host 999/99 matches no client: Could not parse [999/99]") == 1


def test_a_right_that_is_taken_away_while_another_thread_decides_is_not_remembered() -> None:
    # A helper thread matches the regular expression of a consumer group with the topics that its member may describe. It had looked at the
    # entries -> the data plane replaced them, and forgot all decisions -> the helper stored its own: allowed, until the entries changed again.
    made = AclAuthoriser((), everyone_without_entries=False)

    class TakenAway(AccessControlEntry):
        """An entry that is removed while it is looked at."""

        def __getattribute__(self, name: str) -> object:
            if name == "permission_type":
                made.use(())
            return super().__getattribute__(name)

    made.use([TakenAway(uuid.uuid4(), TOPIC, "t", LITERAL, ANN, "*", Operation.READ, ALLOW)])
    may(made)
    assert not may(made)
