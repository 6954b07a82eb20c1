"""`Cluster(…)` and `Acl(…)` say which argument is wrong, and the form that is meant."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.broker import Acl, Cluster
from streamactors.broker.errors import BrokerStartError

ENTRY = Acl("ann", "READ", "TOPIC", "orders")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        # users=["ann"] was an AttributeError; users={"ann": 1} and tls="no" started a broker
        ({"users": ["ann"]}, r"users is list; it is a mapping of names to passwords"),
        ({"users": "ann"}, r"users is str; it is a mapping"),
        ({"users": {"ann": 1}}, r"the name and the password of 'ann' must be strings"),
        ({"users": {"ann": "a"}, "acls": "ann"}, r"acls is 'ann'; it is a list of Acl"),
        ({"users": {"ann": "a"}, "acls": ENTRY}, r"acls is Acl\(.*\); it is a list of Acl"),
        ({"users": {"ann": "a"}, "acls": ["ann"]}, r"it is a list of Acl"),
        ({"tls": "no"}, r"tls is 'no'; it is True or False"),
        ({"process": 1}, r"process is 1; it is True or False"),
        ({"pipelining": None}, r"pipelining is None; it is True or False"),
        ({"data": 5}, r"data is 5; it is the path of a folder"),
        ({"listen": 9092}, r'listen is 9092; it is "host:port"'),
        ({"advertise": [5]}, r'advertise is \[5\]; it is "host:port"'),
        ({"config": ["num.partitions"]}, r"config is .*; it is a mapping of Kafka settings by name"),
        ({"config": {1: 1}}, r"config is \{1: 1\}; it is a mapping"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named_with_its_form(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(BrokerStartError, match=f"Cluster: .*{said}"):
        Cluster(**arguments)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (("ann", "REED", "TOPIC", "x"), r"operation is 'REED'; it is one of ALL, READ, WRITE"),
        (("ann", "READ", "TOPICS", "x"), r"resource is 'TOPICS'; it is one of TOPIC, GROUP"),
        (("ann", "READ", "TOPIC", "x", "PREFIX"), r"pattern is 'PREFIX'; it is one of LITERAL, PREFIXED"),
        (("ann", "READ", "TOPIC", "x", "LITERAL", "MAYBE"), r"permission is 'MAYBE'; it is one of ALLOW, DENY"),
        ((1, "READ", "TOPIC", "x"), r"principal is 1; it is a string"),
        (("", "READ", "TOPIC", "x"), r"principal is ''; it is a string"),
        (("ann", "READ", "TOPIC", None), r"name is None; it is a string"),
        (("ann", "READ", "TOPIC"), r"a TOPIC needs a name; '\*' means every one"),
    ],
)
def test_an_entry_that_allows_nothing_is_refused(fields: tuple[Any, ...], said: str) -> None:
    with pytest.raises(BrokerStartError, match=f"Acl: {said}"):
        Acl(*fields)


def test_the_words_of_an_entry_may_be_small() -> None:
    assert Acl("ann", "read", "topic", "x") == Acl("ann", "READ", "TOPIC", "x")
    assert Acl("ann", "all", "cluster").name == "kafka-cluster"


def test_entries_may_come_from_a_generator() -> None:
    with Cluster(users={"ann": "a"}, acls=(Acl("ann", each, "TOPIC", "x") for each in ("READ", "WRITE"))) as cluster:
        assert cluster.client_properties("ann")["sasl.username"] == "ann"


@pytest.mark.parametrize(
    ("brokers", "port", "said"),
    [
        (1, 9092, r"listen='127\.0\.0\.1:9092'"),
        (3, 65_534, "the brokers take 3 ports from this one on; choose 1 to 65533"),
        (3, 0, "choose 1 to 65533"),
        (3, "9092", "choose 1 to 65533"),
        (3, True, "choose 1 to 65533"),
    ],
)
def test_a_port_that_the_brokers_cannot_have_is_refused(brokers: int, port: Any, said: str) -> None:
    with pytest.raises(BrokerStartError, match=said):
        Cluster(brokers=brokers, port=port)
