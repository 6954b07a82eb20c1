"""`Cluster(users=…, config=…)`: whatever is given, the Cluster object itself can still log in and create topics."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.broker import Acl, Cluster
from streamactors.broker.cluster.cluster_credentials import AUTHORISER, OWNER, ClusterCredentials
from streamactors.broker.errors import BrokerStartError

BOSS = {"super.users": "User:boss"}


@pytest.mark.parametrize(
    ("config", "acls"),
    [
        (BOSS, []),
        ({**BOSS, "authorizer.class.name": AUTHORISER}, None),
        ({"authorizer.class.name": AUTHORISER}, None),
        ({**BOSS, "sasl.enabled.mechanisms": "SCRAM-SHA-512"}, [Acl("ann", "ALL", "TOPIC", "t")]),
    ],
    ids=["super users", "super users and an authoriser", "an authoriser", "no PLAIN"],
)
def test_the_cluster_creates_topics_beside_the_given_super_users(
    config: dict[str, Any], acls: list[Acl] | None
) -> None:
    # The given super.users took the place of the Cluster's own: create_topic ended with TOPIC_AUTHORIZATION_FAILED.
    with Cluster(users={"ann": "a", "boss": "b"}, acls=acls, config=config) as cluster:
        cluster.create_topic("t")


@pytest.mark.parametrize("given", ["User:boss", "User:boss;", " User:boss ", "User:a,CN=b;User:c"])
def test_the_given_super_users_stay_super_users(given: str) -> None:
    doors = ClusterCredentials({"boss": "b"}, False, [])
    merged = doors.with_given(doors.settings(), {"super.users": given})
    assert merged["super.users"] == f"{given.strip().rstrip(';')};User:{OWNER}"


def test_several_brokers_keep_their_way_to_each_other() -> None:
    doors = ClusterCredentials({"boss": "b"}, False, [])
    merged = doors.with_given(doors.between_nodes(), {**BOSS, "sasl.enabled.mechanisms": "SCRAM-SHA-256"})
    assert merged["super.users"] == f"User:boss;User:{OWNER}"
    assert merged["sasl.enabled.mechanisms"] == "SCRAM-SHA-256,PLAIN"


def test_the_setting_that_names_the_users_is_refused() -> None:
    with pytest.raises(BrokerStartError, match=r"plain\.sasl\.jaas\.config.*leave one of the two out"):
        Cluster(users={"boss": "b"}, config={"plain.sasl.jaas.config": "PlainLoginModule required user_x=y;"})
