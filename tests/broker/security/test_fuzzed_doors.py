"""Random bytes before and after the login, at a listener with TLS and one without, on a broker in a process of its own.

STREAMACTORS_FUZZ_S is the length in seconds. The laws: the broker serves its other users, logs no traceback, allocates no more than its limits
allow, and answers a wrong password as it answers a name that nobody has."""

from __future__ import annotations

import base64
import contextlib
import os
import random
import socket
import ssl
import struct
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from streamactors.broker import Acl, Cluster
from streamactors.broker.cluster.several import memory_of
from streamactors.broker.protocol.api_keys import NAMES
from streamactors.broker.protocol.header import request_frame
from streamactors.broker.protocol.messages import encode_request
from streamactors.broker.protocol.schema import known_versions, load_struct
from streamactors.broker.protocol.structures import FieldSchema, StructSchema
from tests.broker.live_broker import batch, fetch_body, produce_body
from tests.broker.wire import WireClient

FUZZ_S: Final = float(os.environ.get("STREAMACTORS_FUZZ_S", "10"))
ROUND: Final = 50  # sessions between two looks at the broker
MAX_REQUEST: Final = 1 << 20
MAY_GROW: Final = 96 << 20
"""The broker's bound for requests in service and received in part is below this, with `SETTINGS`."""
SETTINGS: Final = {
    "socket.request.max.bytes": MAX_REQUEST,
    "connection.failed.authentication.delay.ms": 0,
    "queued.max.request.bytes": 16 << 20,
    "max.connection.creation.rate": 2**31 - 1,
}
KNOWN, UNKNOWN = b"ann", b"nob"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
INTEGERS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
SIZES: Final = (-1, -(2**31), 2**31 - 1, 512 << 10, (512 << 10) + 1, MAX_REQUEST, MAX_REQUEST + 1, 0, 1)


class Doors:
    """The broker, and connections to both of its listeners."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.encrypted, self.plain = (int(each.rpartition(":")[2]) for each in cluster.bootstrap_servers.split(","))
        self._context = ssl.create_default_context(cafile=self.properties["ssl.ca.location"])

    @property
    def properties(self) -> dict[str, str]:
        return {**self.cluster.client_properties("boss"), "bootstrap.servers": f"127.0.0.1:{self.encrypted}"}

    def client(self, *, tls: bool) -> WireClient:
        made = WireClient("127.0.0.1", self.encrypted if tls else self.plain, "fuzz")
        if tls:
            made.socket = self._context.wrap_socket(made.socket, server_hostname="127.0.0.1")
        return made

    def still_serves(self, password: str) -> None:
        for tls in (False, True):
            with self.client(tls=tls) as client:
                log_in(client, password)
                answer = client.call(0, 9, produce_body(batch(b"still here"), "t"))
                assert answer.responses[0].partition_responses[0].error_code == 0


def log_in(client: WireClient, password: str) -> None:
    assert client.call(17, 1, {"mechanism": "PLAIN"}).error_code == 0
    assert client.call(36, 2, {"auth_bytes": b"\0ann\0" + password.encode()}).error_code == 0


# ---- what is sent ----


def number(rng: random.Random, bits: int, *, signed: bool) -> int:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return rng.choice([low, high, 0, 1, rng.randint(low, high)])


def value_of(rng: random.Random, field: FieldSchema) -> Any:
    if field.nullable and rng.random() < 0.2:
        return None
    if field.is_array:
        return [one_of(rng, field) for _ in range(rng.choice([0, 1, 1, 2, 5]))]
    return one_of(rng, field)


def one_of(rng: random.Random, field: FieldSchema) -> Any:
    if isinstance(field.type, StructSchema):
        return {each.name: value_of(rng, each) for each in field.type.fields}
    if field.type in INTEGERS:
        return number(rng, INTEGERS[field.type], signed=field.type.startswith("int"))
    match field.type:
        case "bool":
            return rng.random() < 0.5
        case "string":
            return rng.choice(["t", "g", "", "ann", "__consumer_offsets", "ü" * rng.randrange(200), "\0\n", "x"])
        case "float64":
            return rng.choice([0.0, -1.0, 1e308, float("nan"), float("inf")])
        case "uuid":
            return uuid.UUID(int=rng.getrandbits(128))
        case _:
            return rng.choice([rng.randbytes(rng.randrange(80)), batch(b"x" * rng.randrange(300))])


def a_frame(rng: random.Random) -> bytes:
    """Return a request as a broken or hostile client sends it: noise, a right header with noise, random fields, or a mutilated request."""
    key = rng.choice(sorted(NAMES))
    version = rng.randint(*known_versions(key))
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randbytes(rng.randrange(300))
    if kind == 1:
        return request_frame(key, version, 1, "fuzz", rng.randbytes(rng.randrange(200)))[4:]
    if kind == 2:
        schema = load_struct(key, version, "request")
        with contextlib.suppress(Exception):  # a value that this version cannot encode
            body = encode_request(key, version, {each.name: value_of(rng, each) for each in schema.fields})
            return request_frame(key, version, 1, "fuzz", body)[4:]
    right = rng.choice(
        [(0, 9, produce_body(batch(b"x" * rng.randrange(300)), "t")), (1, 12, fetch_body(topic="t", max_wait_ms=1))]
    )
    whole = bytearray(request_frame(*right[:2], 1, "fuzz", encode_request(*right))[4:])
    for _ in range(rng.randrange(5)):
        whole[rng.randrange(len(whole))] = rng.getrandbits(8)
    return bytes(whole[: rng.randrange(1, len(whole) + 1)] if kind == 3 else whole)


def send_noise(rng: random.Random, client: WireClient) -> None:
    """Send frames, some in pieces and some with a wrong size, and read what comes until the broker ends the connection."""
    with contextlib.suppress(OSError):
        for _ in range(rng.randrange(1, 6)):
            content = a_frame(rng)
            size = len(content) if rng.random() < 0.85 else rng.choice(SIZES)
            stream = struct.pack(">i", size) + content
            while stream:
                cut = rng.randrange(1, len(stream) + 1)
                client.send_raw(stream[:cut])
                stream = stream[cut:]
        client.socket.settimeout(5)
        if not isinstance(client.socket, ssl.SSLSocket):
            client.socket.shutdown(socket.SHUT_WR)
            while client.socket.recv(1 << 16):
                pass


def before_the_login(rng: random.Random, doors: Doors) -> None:
    if rng.random() < 0.3:
        with WireClient("127.0.0.1", doors.encrypted, "fuzz") as client:  # noise in place of TLS
            send_noise(rng, client)
        return
    with doors.client(tls=rng.random() < 0.3) as client:
        if rng.random() < 0.5:
            client.call(17, rng.randint(0, 1), {"mechanism": rng.choice(MECHANISMS)})
        send_noise(rng, client)


def after_the_login(rng: random.Random, doors: Doors, password: str) -> None:
    with doors.client(tls=rng.random() < 0.3) as client:
        log_in(client, password)
        send_noise(rng, client)


# ---- what a stranger may learn ----


def refusal(client: WireClient, mechanism: str, token: Callable[[bytes, bytes], bytes], user: bytes) -> list[Any]:
    """Log in with `token(user, challenge)`; return all of the answers that does not change from one login to the next."""
    assert client.call(17, 1, {"mechanism": mechanism}).error_code == 0
    seen: list[Any] = []
    challenge = b""
    for _ in range(1 if mechanism == "PLAIN" else 2):
        try:
            answer = client.call(36, 2, {"auth_bytes": token(user, challenge)})
        except OSError as error:
            return [*seen, type(error).__name__]
        challenge = answer.auth_bytes
        text = challenge.decode()
        iterations = text.rpartition(",i=")[2]
        seen.append((answer.error_code, answer.error_message, len(text), iterations))
        if answer.error_code:
            break
    return seen


def wrong_token(rng: random.Random, mechanism: str) -> Callable[[bytes, bytes], bytes]:
    """Return a token of a login that fails, well made or not; the same for every user but for the name."""

    def damaged(text: bytes) -> bytes:
        if damage < 0.5 or not text:
            return text
        at = int(damage * 1_000_003) % len(text)
        return text[:at] + bytes([int(damage * 7_919) % 256]) + text[at + 1 :]

    damage, proof = rng.random(), base64.b64encode(rng.randbytes(rng.choice([0, 32, 64, 200])))
    password = rng.choice([b"", b"x", b"pass", "ü".encode(), rng.randbytes(20).hex().encode()])

    def token(user: bytes, challenge: bytes) -> bytes:
        if mechanism == "PLAIN":
            return damaged(b"\0") + user + damaged(b"\0" + password)
        if not challenge:
            return damaged(b"n,,n=") + user + damaged(b",r=abc")
        nonce = challenge.partition(b",")[0]
        return b"c=biws," + nonce + damaged(b",p=" + proof)

    return token


def assert_alike(rng: random.Random, doors: Doors) -> None:
    mechanism = rng.choice(MECHANISMS)
    token = wrong_token(rng, mechanism)
    tls = rng.random() < 0.2
    found = []
    for user in (KNOWN, UNKNOWN):
        with doors.client(tls=tls) as client:
            found.append(refusal(client, mechanism, token, user))
    assert found[0] == found[1], mechanism


@pytest.mark.slow
@pytest.mark.timeout(FUZZ_S + 300)
def test_whatever_comes_before_or_after_the_login_the_broker_serves_on_and_tells_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    password = "no fuzzer finds this one"
    seed = random.SystemRandom().getrandbits(48)
    cluster = Cluster(
        process=True,
        users={"ann": password, "boss": password},
        tls=True,
        # no right to delete or alter: a random request that is allowed to would take the topic away
        acls=[Acl("ann", "READ", "TOPIC", "t"), Acl("ann", "WRITE", "TOPIC", "t"), Acl("ann", "READ", "GROUP", "g")],
        listen=["SASL_SSL://127.0.0.1:0", "SASL_PLAINTEXT://127.0.0.1:0"],
        config={**SETTINGS, "super.users": "User:boss;User:streamactors-cluster"},
    )
    with cluster:
        doors = Doors(cluster)
        change_password(doors, password)
        cluster.create_topic("t")
        memory, sessions, most = 0, 0, 0
        end = time.monotonic() + FUZZ_S
        while time.monotonic() < end:
            for _ in range(ROUND):
                rng = random.Random(seed + sessions)
                sessions += 1
                try:
                    if rng.random() < 0.3:
                        assert_alike(rng, doors)
                    elif rng.random() < 0.5:
                        before_the_login(rng, doors)
                    else:
                        after_the_login(rng, doors, password)
                except OSError as error:
                    raise AssertionError(f"seed {seed + sessions - 1}: {error!r}") from error
            doors.still_serves(password)
            log = capfd.readouterr().err
            assert "Traceback" not in log, f"seeds {seed + sessions - ROUND} to {seed + sessions}: {log[-3_000:]}"
            now = memory_of(cluster.pid)
            memory, most = memory or now, max(most, now)
            assert most - memory < MAY_GROW, (
                f"after {sessions} sessions of seed {seed}: {(most - memory) >> 20} MiB more"
            )
    with capfd.disabled():
        print(
            f"{sessions} sessions from seed {seed}: at most {(most - memory) >> 20} MiB more than after the first {ROUND}"
        )


def change_password(doors: Doors, password: str) -> None:
    """Set the credentials of all users as an admin with a client of librdkafka does: librdkafka chooses the salt, the admin the iterations."""
    admin = AdminClient(doors.properties)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        for user in ("ann", "boss"):
            made = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 8_192), password.encode())
            admin.alter_user_scram_credentials([made])[user].result(30)
