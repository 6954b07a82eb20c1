"""Clients of four languages that log in: each writes a record, reads it again, and returns "ok" or "refused: why"."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer

from tests.compat.go_modules import environment
from tests.compat.support import CACHE, HERE, must_run, run
from tests.differential.apache_kafka import broker as apache

END_S = 30.0
SASL = "org.apache.kafka.common.security"
GO_MODULES = {
    "github.com/IBM/sarama": "v1.61.1",
    "github.com/segmentio/kafka-go": "v0.4.51",
    "github.com/twmb/franz-go": "v1.22.2",
    "github.com/xdg-go/scram": "v1.4.0",
}
KAFKAJS = "kafkajs-2.2.4"


class Login(NamedTuple):
    """How a client comes in. `mechanism` is empty for TLS alone, `certificate` where the client shows none."""

    mechanism: str = ""
    user: str = ""
    secret: str = ""
    certificate: str = ""


class Door(NamedTuple):
    """A listener."""

    servers: str
    authority: Path


def with_librdkafka(door: Door, login: Login) -> str:
    properties: dict[str, Any] = {
        "bootstrap.servers": door.servers,
        "ssl.ca.location": str(door.authority),
        "security.protocol": "SASL_SSL" if login.mechanism else "SSL",
        "message.timeout.ms": 4_000,
        "log_level": 0,
    }
    if login.mechanism == "OAUTHBEARER":
        properties |= {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: (login.secret, time.time() + 500)}
    elif login.mechanism:
        named = {"sasl.mechanism": login.mechanism, "sasl.username": login.user, "sasl.password": login.secret}
        properties |= named
    if login.certificate:
        properties |= {"ssl.certificate.location": login.certificate, "ssl.key.location": key_of(login.certificate)}
    failed: list[str] = []
    producer = Producer({**properties, "error_cb": lambda error: failed.append(str(error))})
    delivered: list[Any] = []
    producer.produce("t", b"librdkafka", on_delivery=lambda error, message: delivered.append(error or message))
    producer.flush(END_S)
    if not hasattr(delivered[0], "offset"):
        return f"refused: {delivered[0]} {failed[:1]}"
    consumer = Consumer({**properties, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    give_up = time.monotonic() + END_S
    try:
        while time.monotonic() < give_up:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None and message.value() == b"librdkafka":
                return "ok"
    finally:
        consumer.close()
    return "refused: nothing came"


def python_options(door: Door, login: Login) -> dict[str, Any]:
    import ssl

    context = ssl.create_default_context(cafile=str(door.authority))
    if login.certificate:
        context.load_cert_chain(login.certificate, key_of(login.certificate))
    found: dict[str, Any] = {"bootstrap_servers": door.servers, "ssl_context": context}
    if not login.mechanism:
        return {**found, "security_protocol": "SSL"}
    found |= {"security_protocol": "SASL_SSL", "sasl_mechanism": login.mechanism}
    if login.mechanism != "OAUTHBEARER":
        found |= {"sasl_plain_username": login.user, "sasl_plain_password": login.secret}
    return found


def with_kafka_python(door: Door, login: Login) -> str:
    import kafka
    import kafka.errors
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return login.secret

    options = python_options(door, login)
    if login.mechanism == "OAUTHBEARER":
        options["sasl_oauth_token_provider"] = Tokens()
    try:
        producer = kafka.KafkaProducer(**options, max_block_ms=3_000, bootstrap_timeout_ms=3_000)
        sent = producer.send("t", b"kafka-python").get(timeout=END_S)
        producer.close(5)
        consumer = kafka.KafkaConsumer(**options, consumer_timeout_ms=10_000)
        consumer.assign([kafka.TopicPartition("t", 0)])
        consumer.seek(kafka.TopicPartition("t", 0), sent.offset)
        message = next(iter(consumer))
        consumer.close()
    except kafka.errors.KafkaError as error:
        return f"refused: {error}"
    return "ok" if message.value == b"kafka-python" else f"refused: {message}"


def with_aiokafka(door: Door, login: Login) -> str:
    import aiokafka
    from aiokafka.abc import AbstractTokenProvider
    from aiokafka.errors import KafkaError

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return login.secret

    options = python_options(door, login)
    if login.mechanism == "OAUTHBEARER":
        options["sasl_oauth_token_provider"] = Tokens()

    async def talk() -> str:
        producer = aiokafka.AIOKafkaProducer(**options)
        try:
            await asyncio.wait_for(producer.start(), 10)
            sent = await asyncio.wait_for(producer.send_and_wait("t", b"aiokafka"), END_S)
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(**options)
        try:
            await consumer.start()
            place = aiokafka.TopicPartition("t", 0)
            consumer.assign([place])
            consumer.seek(place, sent.offset)
            message = await asyncio.wait_for(consumer.getone(), END_S)
        finally:
            await consumer.stop()
        return "ok" if message.value == b"aiokafka" else f"refused: {message}"

    try:
        return asyncio.run(talk())
    except (KafkaError, TimeoutError) as error:
        return f"refused: {error!r}"


def with_go(client: str) -> Callable[[Door, Login], str]:
    def talk(door: Door, login: Login) -> str:
        at = (door.servers, door.authority, login.mechanism, login.user, login.secret, "t")
        return said([go_program(), client, *at, *both_of(login.certificate)], CACHE)

    return talk


def with_kafkajs(door: Door, login: Login) -> str:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("Node.js is not here")
    modules = CACHE / KAFKAJS
    if not (modules / "node_modules" / "kafkajs").exists():
        modules.mkdir(parents=True, exist_ok=True)
        must_run(
            [npm, "install", "--prefix", modules, "--no-audit", "--no-fund", KAFKAJS.replace("-", "@")], folder=modules
        )
    at = (door.servers, door.authority, login.mechanism, login.user, login.secret, "t")
    program = [node, HERE / "programs" / "kafkajs_login.cjs", *at, *both_of(login.certificate)]
    return said(program, modules, NODE_PATH=os.fspath(modules / "node_modules"), KAFKAJS_NO_PARTITIONER_WARNING="1")


def with_java(door: Door, login: Login) -> str:
    lines = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(door.authority),
        "delivery.timeout.ms": "6000",
    }
    lines |= {"request.timeout.ms": "5000", "max.block.ms": "8000", "linger.ms": "0"}
    lines["security.protocol"] = "SASL_SSL" if login.mechanism else "SSL"
    if login.mechanism:
        module = "plain.PlainLoginModule" if login.mechanism == "PLAIN" else "scram.ScramLoginModule"
        lines["sasl.mechanism"] = login.mechanism
        lines["sasl.jaas.config"] = f'{SASL}.{module} required username="{login.user}" password="{login.secret}";'
    if login.certificate:
        lines |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": login.certificate.replace(".crt", ".pem")}
    file = door.authority.with_name(f"java-{uuid.uuid4().hex}.properties")
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    topic = ("--bootstrap-server", door.servers, "--topic", "t", "--max-messages", "1")
    produced = apache.tool("org.apache.kafka.tools.VerifiableProducer", *topic, "--producer.config", str(file))
    if '"acked":1' not in produced:
        return f"refused: {produced[-300:]}"
    group = ("--group-id", uuid.uuid4().hex, "--reset-policy", "earliest")
    consumed = apache.tool("org.apache.kafka.tools.VerifiableConsumer", *topic, *group, "--consumer.config", str(file))
    return "ok" if '"count":1' in consumed else f"refused: {consumed[-300:]}"


CLIENTS: dict[str, Callable[[Door, Login], str]] = {
    "librdkafka": with_librdkafka,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
    **{name: with_go(name) for name in ("sarama", "franz-go", "kafka-go")},
    "KafkaJS": with_kafkajs,
    "Java": with_java,
}


def go_program() -> Path:
    """Return the program with the three Go clients. Skips the test where it cannot be built."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not here")
    built = CACHE / "logins" / "logins"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / "programs" / "logins" / "main.go", built.parent)
        (built.parent / "go.mod").write_text("module logins\n\ngo 1.24\n")
        wanted = [f"{module}@{version}" for module, version in GO_MODULES.items()]
        for command in ([go, "get", *wanted], [go, "build", "-o", built, "."]):
            ran = run(command, folder=built.parent, timeout_s=900, env=environment())
            if ran.returncode != 0:
                pytest.skip(f"the Go clients cannot be built: {ran.stderr.strip()[-300:]}")
    return built


def said(program: list[Any], folder: Path, **env: str) -> str:
    ran = run(program, folder=folder, timeout_s=90, env=env)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.strip()


def key_of(certificate: str) -> str:
    return certificate.replace(".crt", ".key")


def both_of(certificate: str) -> tuple[str, str]:
    return (certificate, key_of(certificate)) if certificate else ("", "")
