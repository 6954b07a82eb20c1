"""Every API that is served, in every version, with random fields, before and after the login.

Before it the broker answers nothing but the login's own APIs. After it, whatever comes back is an answer of that API. The broker serves on, and
logs no traceback."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections import Counter
from typing import Final

import pytest

from streamactors.broker import Acl, Cluster, apis
from streamactors.broker.protocol.schema import known_versions, load_struct
from streamactors.broker.requests.api import Routes
from tests.broker.security.test_fuzzed_doors import SETTINGS, Doors, log_in, value_of
from tests.broker.wire import WireClient

PASSWORD: Final = "no fuzzer finds this one"
EACH: Final = 2  # requests of each version
TRIES: Final = 100
BEFORE_LOGIN: Final = (17, 18, 36)
SERVED: Final = Routes.of_package(apis).ranges


def send_each(client: WireClient, rng: random.Random, key: int, version: int, count: int = EACH) -> int:
    """Send `count` requests, and read what comes until the broker ends the connection. Return the number of answers, all of which can be decoded."""
    answers = 0
    with contextlib.suppress(OSError):
        for _ in range(count):
            send_one(client, rng, key, version)
    with contextlib.suppress(OSError):  # an answer may be there though the broker has ended the connection
        client.socket.shutdown(socket.SHUT_WR)
        while True:
            client.receive()
            answers += 1
    return answers


def send_one(client: WireClient, rng: random.Random, key: int, version: int) -> None:
    """Send a request. Some values cannot be encoded: others are tried then."""
    schema = load_struct(key, version, "request")
    while True:
        try:
            client.send(key, version, {each.name: value_of(rng, each) for each in schema.fields})
        except (UnicodeError, struct.error, ValueError, TypeError, AttributeError):
            continue
        return


@pytest.mark.timeout(300)
def test_every_api_is_fuzzed_before_and_after_the_login(capfd: pytest.CaptureFixture[str]) -> None:
    seed = random.SystemRandom().getrandbits(48)
    rng = random.Random(seed)
    cluster = Cluster(
        process=True,
        users={"ann": PASSWORD, "boss": PASSWORD},
        tls=True,
        # no right to delete or alter: a random request that is allowed to would take the topic away
        acls=[Acl("ann", "READ", "TOPIC", "t"), Acl("ann", "WRITE", "TOPIC", "t"), Acl("ann", "READ", "GROUP", "g")],
        listen=["SASL_SSL://127.0.0.1:0", "SASL_PLAINTEXT://127.0.0.1:0"],
        config={**SETTINGS, "super.users": "User:boss;User:streamactors-cluster"},
    )
    with cluster:
        doors = Doors(cluster)
        cluster.create_topic("t")
        answered: Counter[int] = Counter()
        for key, low, high in SERVED:
            for version in range(
                max(low, known_versions(key)[0]), high + 1
            ):  # Produce is listed from 0, for old clients
                with doors.client(tls=False) as stranger:
                    if rng.random() < 0.5:
                        assert stranger.call(17, 1, {"mechanism": "PLAIN"}).error_code == 0
                    answers = send_each(stranger, rng, key, version)
                    answered[key] += answers
                    assert not answers or key in BEFORE_LOGIN, f"key {key}, seed {seed}: a stranger was answered"
                with doors.client(tls=False) as known:
                    log_in(known, PASSWORD)
                    answered[key] += send_each(known, rng, key, version)
            doors.still_serves(PASSWORD)
            log = capfd.readouterr().err
            assert "Traceback" not in log, f"key {key}, seed {seed}: {log[-3_000:]}"
        for key, low, high in SERVED:
            for _ in range(TRIES):
                if answered[key]:
                    break
                version = rng.randint(max(low, known_versions(key)[0]), high)
                # Chance made no request of this key that can be read, or the broker ended the connection before it had read the others: then
                # the client's kernel drops the answer. So it is one request now.
                with doors.client(tls=False) as known:
                    log_in(known, PASSWORD)
                    answered[key] += send_each(known, rng, key, version, count=1)
        never = [key for key, *_ in SERVED if not answered[key]]
        assert never == [], f"seed {seed}: no answer to any request of these keys"
