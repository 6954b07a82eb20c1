"""The salt of an unknown user is the same on every broker and after a restart, as a user's is: the answers do not tell which users exist."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ConfigSource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from streamactors.broker import Cluster
from streamactors.broker.security.sasl import scram
from tests.broker.wire import WireClient


def salt(address: str, user: str) -> bytes:
    """Return the salt that a broker shows for a user."""
    host, _, port = address.rpartition(":")
    with WireClient(host, int(port)) as client:
        assert client.call(17, 1, {"mechanism": "SCRAM-SHA-256"}).error_code == 0
        answer = client.call(36, 2, {"auth_bytes": f"n,,n={user},r=abc".encode()})
        assert answer.error_code == 0
        return bytes(answer.auth_bytes).split(b",")[1]


def test_every_broker_shows_the_same_salt() -> None:
    with Cluster(brokers=2, users={"ann": "a"}) as cluster:
        shown = {user: [salt(each, user) for each in cluster.bootstrap_servers.split(",")] for user in ("ann", "bob")}
    assert len(shown["ann"]) == 2
    assert len(set(shown["ann"])) == len(set(shown["bob"])) == 1
    assert shown["ann"] != shown["bob"]


def test_a_restart_shows_the_same_salt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[bytes] = []
    for _ in range(2):
        monkeypatch.setattr(scram, "PROCESS_SECRET", secrets.token_bytes(32))  # as another process has it
        with Cluster(data=tmp_path / "data", users={"ann": "a"}) as cluster:
            shown.append(salt(cluster.bootstrap_servers, "bob"))
    assert shown[0] == shown[1]


def test_another_password_does_not_change_the_salts_of_unknown_users(guarded: Cluster) -> None:
    before = salt(guarded.bootstrap_servers, "bob")
    change = UserScramCredentialUpsertion(
        "boss", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096), b"other", bytes(24)
    )
    admin = AdminClient(guarded.client_properties("boss"))
    (done,) = admin.alter_user_scram_credentials([change]).values()
    done.result(30)
    assert salt(guarded.bootstrap_servers, "bob") == before


def test_the_secret_is_not_shown(guarded: Cluster) -> None:
    admin = AdminClient(guarded.client_properties("boss"))
    (node,) = admin.list_topics(timeout=30).brokers
    (described,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(node))]).values()
    entry = described.result(30)["sasl.scram.salt.secret"]
    assert entry.source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value, (
        "the controller sets it with the first credential"
    )
    assert entry.is_sensitive
    assert entry.value is None
