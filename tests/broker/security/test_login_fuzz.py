"""Whatever is sent before and after a login: the broker serves on, its memory stays, and no answer tells a user from a password."""

from __future__ import annotations

import logging
import os
import random
import time
from typing import Any

import pytest

from streamactors.broker import Cluster
from streamactors.broker.protocol.header import request_frame
from streamactors.broker.protocol.messages import encode_request
from streamactors.broker.security.sasl.scram import SHA_256, ScramClient
from tests.broker.fuzz import random_request
from tests.broker.wire import WireClient, wait_until

HANDSHAKE, AUTHENTICATE, METADATA = (17, 1), (36, 2), (3, 9)
USERS = {"ann": "pw"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "", "x" * 300)
MORE_MB = 64


def connection(address: str) -> WireClient:
    host, port = address.split(":")
    return WireClient(host, int(port))


def plain(user: str, password: str) -> bytes:
    return f"\0{user}\0{password}".encode()


def mutilated(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.randrange(1, 4)):
        changed[rng.randrange(len(changed))] = rng.getrandbits(8)
    return bytes(changed)


def login_frame(rng: random.Random) -> bytes:
    """A request of a login: right, with a wrong token, or noise."""
    tokens = (
        plain("ann", "no"),
        ScramClient(SHA_256, "ann", "pw").first(),
        b"n,,\x01auth=Bearer x.y.z\x01\x01",
        b"c=biws,r=abc,p=" + b"A" * 40,
        rng.randbytes(rng.randrange(200)),
    )
    if rng.random() < 0.4:
        frame = request_frame(*HANDSHAKE, 1, "fuzz", encode_request(*HANDSHAKE, {"mechanism": rng.choice(MECHANISMS)}))
    else:
        token = rng.choice(tokens)
        sent = mutilated(rng, token) if token and rng.random() < 0.5 else token
        frame = request_frame(*AUTHENTICATE, 1, "fuzz", encode_request(*AUTHENTICATE, {"auth_bytes": sent}))
    return bytes(frame)


def attack(address: str, seed: int) -> None:
    """One connection: some requests before the login, or good credentials and some requests behind them."""
    rng = random.Random(seed)
    with connection(address) as client:
        try:
            if rng.random() < 0.4:
                client.call(*HANDSHAKE, {"mechanism": "PLAIN"})
                client.call(*AUTHENTICATE, {"auth_bytes": plain("ann", "pw")})
            for _ in range(rng.randrange(1, 6)):
                content = random_request(rng)
                framed = len(content).to_bytes(4, "big") + content
                client.send_raw(login_frame(rng) if rng.random() < 0.5 else framed)
        except OSError:
            pass  # closed, as it should be


def refusal(address: str, mechanism: str, user: str, password: str) -> tuple[int, str | None]:
    """Return the code and text with which a login is refused."""
    with connection(address) as client:
        assert client.call(*HANDSHAKE, {"mechanism": mechanism}).error_code == 0
        if mechanism == "PLAIN":
            answer: Any = client.call(*AUTHENTICATE, {"auth_bytes": plain(user, password)})
        else:
            exchange = ScramClient(SHA_256, user, password)
            answer = client.call(*AUTHENTICATE, {"auth_bytes": exchange.first()})
            if not answer.error_code:
                answer = client.call(*AUTHENTICATE, {"auth_bytes": exchange.last(bytes(answer.auth_bytes))})
    return answer.error_code, answer.error_message


def serves(address: str) -> None:
    """Log in and ask for something."""
    with connection(address) as client:
        assert client.call(*HANDSHAKE, {"mechanism": "PLAIN"}).error_code == 0
        assert client.call(*AUTHENTICATE, {"auth_bytes": plain("ann", "pw")}).error_code == 0
        assert client.call(*METADATA, {"topics": []}).brokers


def test_whatever_is_sent_before_and_after_a_login_the_broker_serves_on(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(users=USERS) as cluster:
        for seed in range(300):
            attack(cluster.bootstrap_servers, seed)
        serves(cluster.bootstrap_servers)
    broken = [record for record in caplog.records if record.levelno >= logging.ERROR and record.exc_info]
    assert not broken, broken[0].getMessage()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_no_refusal_tells_an_unknown_user_from_a_wrong_password(mechanism: str) -> None:
    with Cluster(users=USERS) as cluster:
        told = {
            refusal(cluster.bootstrap_servers, mechanism, user, password)
            for user, password in (
                ("ann", "no"),
                ("bob", "pw"),
                ("bob", ""),
                ("ann", ""),
                ("x" * 200, "pw"),
                ("é", "pw"),
            )
            if password or mechanism != "PLAIN"
        }
    assert len(told) == 1, told
    assert all("ann" not in (text or "") for _, text in told)


@pytest.mark.slow
@pytest.mark.timeout(1_000)
def test_minutes_of_attacks_cost_no_memory() -> None:
    """Ten minutes, or LOGIN_FUZZ_S seconds."""
    from streamactors.broker.cluster.several import memory_of

    with Cluster(users=USERS, process=True) as cluster:
        serves(cluster.bootstrap_servers)
        before = memory_of(cluster.pid)
        seed = random.SystemRandom().getrandbits(60)
        end = time.monotonic() + float(os.environ.get("LOGIN_FUZZ_S", "600"))
        while time.monotonic() < end:
            for _ in range(200):
                attack(cluster.bootstrap_servers, seed)
                seed += 1
            serves(cluster.bootstrap_servers)
            grown_mb = (memory_of(cluster.pid) - before) / 2**20
            assert grown_mb < MORE_MB, f"seeds up to {seed}: the broker has grown by {grown_mb:.0f} MB"
        wait_until(lambda: (memory_of(cluster.pid) - before) / 2**20 < MORE_MB)
