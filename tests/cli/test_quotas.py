"""`streamactors quotas`: set, listed and removed at a running broker, and what is said of mistakes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamactors.broker import Cluster
from tests.cli.ran import Run


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def test_a_quota_is_set_listed_and_removed(streamactors: Run, broker: Cluster) -> None:
    at = ("-b", broker.bootstrap_servers)
    assert streamactors("quotas", "list", *at).out == f"no quotas at {broker.bootstrap_servers}\n"
    ran = streamactors(
        "quotas",
        "set",
        "producer_byte_rate=1000000",
        "request_percentage=12.5",
        "--user",
        "ann",
        "--all-client-ids",
        *at,
    )
    assert (ran.code, ran.out) == (
        0,
        "user ann, client-id <default>: producer_byte_rate 1e+06\nuser ann, client-id <default>: request_percentage 12.5\n",
    )
    streamactors("quotas", "set", "connection_creation_rate=5", "--ip", "127.0.0.1", *at)
    assert streamactors("quotas", "list", "--json", *at).json == [
        {"user": "", "client-id": "", "ip": "127.0.0.1", "quota": "connection_creation_rate", "value": 5.0},
        {"user": "ann", "client-id": "<default>", "ip": "", "quota": "producer_byte_rate", "value": 1000000.0},
        {"user": "ann", "client-id": "<default>", "ip": "", "quota": "request_percentage", "value": 12.5},
    ]
    streamactors("quotas", "remove", "connection_creation_rate", "--ip", "127.0.0.1", *at)
    ran = streamactors(
        "quotas", "remove", "producer_byte_rate", "request_percentage", "--user", "ann", "--all-client-ids", *at
    )
    assert ran.code == 0
    assert streamactors("quotas", "list", "--json", *at).json == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("set", "producer_byte_rate=5"), 2, "whose quota? name --user"),
        (
            ("set", "producer_byte_rate=5", "--user", "ann", "--all-users"),
            2,
            "give --user or --all-users, not both",
        ),
        (("set", "producer_byte_rate", "--user", "ann"), 2, "its form is QUOTA=NUMBER"),
        (("set", "byte_rate=5", "--user", "ann"), 2, "'byte_rate' is not a quota; there are producer_byte_rate"),
        (("set", "producer_byte_rate=0", "--user", "ann"), 1, "Quota producer_byte_rate must be greater than 0"),
        (("set", "producer_byte_rate=5", "--user", "ann", "--ip", "127.0.0.1"), 1, "IP entity shouldnot be combined"),
        (
            ("set", "connection_creation_rate=5", "--user", "ann"),
            1,
            "Invalid configuration key connection_creation_rate",
        ),
        (("remove", "no_such", "--user", "ann"), 2, "no_such"),
    ],
)
def test_a_mistake_is_one_sentence(
    streamactors: Run, broker: Cluster, arguments: tuple[str, ...], code: int, said: str
) -> None:
    ran = streamactors("quotas", *arguments, "-b", broker.bootstrap_servers)
    assert ran.code == code
    assert said in ran.err
    assert "Traceback" not in ran.err
