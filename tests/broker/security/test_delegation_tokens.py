"""Delegation tokens over the wire: made, shown, renewed and ended by those who may, and a login by one is its owner's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker import Acl, Cluster
from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.errors import ErrorCode
from streamactors.broker.security.first_users import first_commands
from streamactors.broker.security.login import Answered
from streamactors.broker.security.sasl.scram import SHA_256, ScramClient
from streamactors.broker.server.server import Broker
from streamactors.clock import VirtualClock
from tests.broker.scram_login import log_in, log_in_by_token
from tests.broker.wire import WireClient

DAY_MS = 86_400_000
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:boss",
    "delegation.token.secret.key": "only brokers know it",
    "connection.failed.authentication.delay.ms": 0,
    "inter.broker.listener.name": "SASL_PLAINTEXT",
}
USERS = [f"SCRAM-SHA-256=[name={name},password={name}]" for name in ("ann", "bob", "eve", "boss")]
Enter = Callable[..., WireClient]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def enter(tmp_path: Path, clock: VirtualClock) -> Iterator[Enter]:
    """Return a function that logs in: by a user's name, or by a token's id and secret."""
    broker = Broker(BrokerConfig.of(SETTINGS), tmp_path, clock, first=first_commands(USERS, []))
    broker.start()
    clients = []

    def entered(user: str, secret: bytes | None = None) -> WireClient:
        client = WireClient("127.0.0.1", broker.node.listeners[0].port)
        clients.append(client)
        done = log_in(client, user, user) if secret is None else log_in_by_token(client, user, secret)
        client.login = Answered(ErrorCode(done.error_code), lifetime_ms=done.session_lifetime_ms)  # type: ignore[attr-defined]
        return client

    yield entered
    for client in clients:
        client.close()
    broker.stop()


def make(client: WireClient, *renewers: str, lifetime_ms: int = -1, owner: str = "", version: int = 3) -> Any:
    body: dict[str, Any] = {
        "renewers": [
            dict(zip(("principal_type", "principal_name"), each.split(":"), strict=True)) for each in renewers
        ],
        "max_lifetime_ms": lifetime_ms,
    }
    if version == 3:
        body |= {"owner_principal_type": "User", "owner_principal_name": owner}
    return client.call(38, version, body)


def shown(client: WireClient, *owners: str, version: int = 3) -> list[str]:
    wanted = [{"principal_type": "User", "principal_name": each} for each in owners] or None
    answer = client.call(41, version, {"owners": wanted})
    assert answer.error_code == 0
    return [token.token_id for token in answer.tokens]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_login_by_a_token_is_its_owners(enter: Enter, clock: VirtualClock, version: int) -> None:
    token = make(enter("ann"), version=version)
    assert (token.error_code, token.principal_type, token.principal_name) == (0, "User", "ann")
    now_ms = clock.wall_ms()
    assert (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms) == (
        now_ms,
        now_ms + DAY_MS,
        now_ms + 7 * DAY_MS,
    )
    by_token = enter(token.token_id, bytes(token.hmac))
    assert by_token.login.code == ErrorCode.NONE  # type: ignore[attr-defined]
    assert by_token.login.lifetime_ms == DAY_MS  # type: ignore[attr-defined]
    assert by_token.call(3, 9, {"topics": None}).topics == ()
    assert make(by_token).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, "a token makes no token"
    assert by_token.call(41, 2, {"owners": None}).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_a_wrong_secret_and_an_unknown_token_are_refused_alike(enter: Enter) -> None:
    token = make(enter("ann"))
    for token_id, secret in ((token.token_id, b"wrong"), ("no such token", bytes(token.hmac)), ("ann", b"ann")):
        assert enter(token_id, secret).login.code == ErrorCode.SASL_AUTHENTICATION_FAILED  # type: ignore[attr-defined]


def test_owner_requester_and_renewers_may_renew_and_others_not(enter: Enter, clock: VirtualClock) -> None:
    token = make(enter("boss"), "User:bob", owner="ann")
    assert (token.principal_name, token.token_requester_principal_name) == ("ann", "boss")
    clock.advance("1s")
    for user, code in (("ann", 0), ("bob", 0), ("boss", 0), ("eve", ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)):
        answer = enter(user).call(39, 2, {"hmac": token.hmac, "renew_period_ms": 2 * DAY_MS})
        assert answer.error_code == code, user
        assert answer.expiry_timestamp_ms == (-1 if code else clock.wall_ms() + 2 * DAY_MS)
    ann = enter("ann")
    longest = ann.call(39, 1, {"hmac": token.hmac, "renew_period_ms": 100 * DAY_MS}).expiry_timestamp_ms
    assert longest == token.max_timestamp_ms
    unknown = ann.call(39, 1, {"hmac": b"unknown", "renew_period_ms": 1}).error_code
    assert unknown == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_expires_and_admits_nobody_then(enter: Enter, clock: VirtualClock) -> None:
    ann = enter("ann")
    token = make(ann, lifetime_ms=5_000)
    assert token.expiry_timestamp_ms == token.max_timestamp_ms == clock.wall_ms() + 5_000
    clock.advance("5001ms")
    assert enter(token.token_id, bytes(token.hmac)).login.code == ErrorCode.SASL_AUTHENTICATION_FAILED  # type: ignore[attr-defined]
    answer = ann.call(39, 2, {"hmac": token.hmac, "renew_period_ms": 1})
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert shown(ann) == []


def test_a_token_is_ended_at_once_or_later(enter: Enter, clock: VirtualClock) -> None:
    ann = enter("ann")
    one, other = make(ann), make(ann)
    assert sorted(shown(ann)) == sorted([one.token_id, other.token_id])
    later = ann.call(40, 2, {"hmac": one.hmac, "expiry_time_period_ms": 700})
    assert (later.error_code, later.expiry_timestamp_ms) == (0, clock.wall_ms() + 700)
    gone = ann.call(40, 2, {"hmac": other.hmac, "expiry_time_period_ms": -1})
    assert (gone.error_code, gone.expiry_timestamp_ms) == (0, clock.wall_ms())
    assert shown(ann) == [one.token_id]
    again = ann.call(40, 2, {"hmac": other.hmac, "expiry_time_period_ms": -1})
    assert again.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_who_sees_which_tokens(enter: Enter) -> None:
    of_ann = make(enter("ann"), "User:bob").token_id
    of_eve = make(enter("eve")).token_id
    assert shown(enter("ann")) == shown(enter("bob")) == [of_ann]
    assert set(shown(enter("boss"))) == {of_ann, of_eve}
    assert shown(enter("boss"), "eve") == [of_eve]
    assert shown(enter("ann"), "eve") == []
    for version in (1, 2):
        assert shown(enter("eve"), version=version) == [of_eve]


def test_what_is_refused(enter: Enter) -> None:
    ann = enter("ann")
    assert make(ann, owner="bob").error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert make(ann, "Group:g").error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert make(ann).token_id
    with Cluster() as open_broker:
        host, port = open_broker.bootstrap_servers.split(":")
        with WireClient(host, int(port)) as anybody:
            assert make(anybody).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_without_a_key_there_are_no_tokens_and_the_key_is_not_shown(tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient, ConfigResource

    with Cluster(
        users={"ann": "a"}, acls=[Acl("ann", "ALL", "CLUSTER")], config={"delegation.token.secret.key": "s3cret"}
    ) as one:
        admin = AdminClient(one.client_properties("ann"))
        (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
        entry = future.result(30)["delegation.token.secret.key"]
        assert (entry.value, entry.is_sensitive) == (None, True)


def test_tokens_survive_a_restart(tmp_path: Path) -> None:
    tokens = []
    for again in (False, True):
        broker = Broker(BrokerConfig.of(SETTINGS), tmp_path, first=() if again else first_commands(USERS, []))
        broker.start()
        try:
            if again:
                found = broker.node.tokens.find(tokens[0])
                assert found is not None
                assert found.owner == "User:ann"
            else:
                with WireClient("127.0.0.1", broker.node.listeners[0].port) as client:
                    exchange = ScramClient(SHA_256, "ann", "ann")
                    client.call(17, 1, {"mechanism": "SCRAM-SHA-256"})
                    last = exchange.last(client.call(36, 2, {"auth_bytes": exchange.first()}).auth_bytes)
                    client.call(36, 2, {"auth_bytes": last})
                    tokens.append(bytes(make(client).hmac))
        finally:
            broker.stop()
