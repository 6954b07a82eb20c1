"""Bad input: the right error or a closed connection, one line about it, and everybody else is served on."""

from __future__ import annotations

import logging
import random
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.network.other_protocols import NonKafkaClients
from streamactors.broker.requests.api import LATER, Api
from streamactors.broker.security.rights import anyone
from tests.broker.fuzz import random_request
from tests.broker.live_broker import LiveBroker, batch, fetch_body, produce_body
from tests.broker.wire import WireClient


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path_factory.mktemp("bad-input"), {"auto.create.topics.enable": False}) as live:
        live.create_topic("orders")
        yield live


@pytest.fixture
def client(broker: LiveBroker) -> Iterator[WireClient]:
    with broker.client() as made:
        yield made


def still_serves(broker: LiveBroker) -> None:
    with broker.client() as other:
        answer = other.call(0, 9, produce_body(batch(b"still here")))
        assert answer.responses[0].partition_responses[0].error_code == 0


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "a request of 0 bytes; a header has at least 10"),
        (b"\x00\x12\x00", "a request of 3 bytes"),
        (struct.pack(">hhih", 18, 0, 1, 100), "a client id of 100 bytes where 0 are left"),
        (struct.pack(">hhih", 18, 0, 1, -5), "a client id of length -5"),
        (struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe", "a client id that is not UTF-8"),
        (struct.pack(">hhih", 4711, 0, 1, -1), "unknown API key 4711 (no such API)"),
        (struct.pack(">hhih", 4, 0, 1, -1), "unknown API key 4 (no such API)"),
        (struct.pack(">hhih", 52, 0, 1, -1) + b"\x00", "unknown API key 52 (vote)"),
        (struct.pack(">hhih", -1, -1, 1, -1), "unknown API key -1"),
        (
            struct.pack(">hhih", 1, 3, 1, -1),
            "it sent Fetch v3, and this broker serves versions 4 to 18; use a newer client",
        ),
        (struct.pack(">hhih", 1, 19, 1, -1) + b"\x00", "it sent Fetch v19, and this broker serves versions 4 to 18"),
        (struct.pack(">hhih", 3, -1, 1, -1), "it sent Metadata v-1, and this broker serves versions 0 to 13"),
        (struct.pack(">hhih", 3, 0, 1, -1), "bad Metadata v0 request"),
        (struct.pack(">hhih", 0, 7, 1, -1) + b"\xff\xff\x00", "bad Produce v7 request"),
        (struct.pack(">hhih", 1, 12, 1, -1) + b"\x00\x01", "bad Fetch v12 request"),
        (struct.pack(">hhih", 3, 9, 1, -1) + b"\x00\xff\xff\xff\xff\x0f", "bad Metadata v9 request"),
        (struct.pack(">hhih", 3, 1, 1, -1) + b"\x7f\xff\xff\xff", "bad Metadata v1 request"),
    ],
)
def test_a_frame_that_is_no_request_closes_its_connection_with_one_line(
    broker: LiveBroker, client: WireClient, caplog: pytest.LogCaptureFixture, content: bytes, said: str
) -> None:
    client.send_raw(framed(content))
    assert client.closed_by_peer()
    still_serves(broker)
    (line,) = warnings_of(caplog)
    assert said in line
    assert "connection of 127.0.0.1:" in line


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS hello on a plain listener"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP request"),
        (struct.pack(">i", 104_857_601), "a request of 104857601 bytes; socket.request.max.bytes is 104857600"),
        (struct.pack(">i", -1), "a request of -1 bytes"),
    ],
)
def test_other_protocols_and_impossible_sizes(
    broker: LiveBroker, client: WireClient, caplog: pytest.LogCaptureFixture, head: bytes, said: str
) -> None:
    broker.node.processor.non_kafka_clients = NonKafkaClients(
        broker.node.processor.non_kafka_clients._now_ms
    )  # of the tests before: each host is logged once a minute
    client.send_raw(head)
    assert client.closed_by_peer()
    still_serves(broker)
    (line,) = warnings_of(caplog)
    assert said in line


@pytest.mark.parametrize(
    "bad",
    [
        framed(b"bad"),
        struct.pack(">i", -7),
        b"GET / HTTP/1.1\r\n",
        framed(struct.pack(">hhih", 4711, 0, 1, -1)),
        framed(struct.pack(">hhih", 1, 3, 1, -1)),
        framed(struct.pack(">hhih", 0, 7, 1, -1) + b"\xff\xff\x00"),
    ],
    ids=["no header", "a negative size", "HTTP", "an unknown key", "an unknown version", "a bad body"],
)
def test_requests_before_a_bad_one_are_answered(broker: LiveBroker, client: WireClient, bad: bytes) -> None:
    # as in Apache Kafka, which does not read the next request before it has answered this one
    end = broker.partition("orders").log_end_offset
    requests = [
        client.frame(0, 9, produce_body(batch(b"good"), acks=1)),
        client.frame(1, 12, fetch_body(end + 1, max_wait_ms=2**31 - 1)),
        client.frame(0, 9, produce_body(batch(b"good"), partition=1)),
    ]
    client.send_raw(b"".join(requests) + bad + client.frame(0, 9, produce_body(batch(b"behind"))))
    assert client.receive()[1].responses[0].partition_responses[0].error_code == 0
    assert client.receive()[1].responses[0].partitions[0].error_code == 0  # it does not wait now
    unknown = client.receive()[1].responses[0].partition_responses[0]
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.closed_by_peer()
    assert broker.partition("orders").log_end_offset == end + 1
    still_serves(broker)


def test_names_as_long_as_a_request_can_have_them_are_refused_in_a_few_words(
    broker: LiveBroker, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    # an answer that cites such a name cannot be encoded: the connection was closed, with a traceback of 64 KB
    name = "ü" * 16_383
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": []}
    for version in (4, 7):
        (created,) = client.call(19, version, {"topics": [topic], "timeout_ms": 1000}).topics
        assert created.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert created.error_message.startswith("Topic name is invalid")
        assert created.error_message.endswith(" ...")
    asked = {"resource_type": 2, "resource_name": name, "configuration_keys": None}
    assert client.call(32, 1, {"resources": [asked]}).results[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert warnings_of(caplog) == []
    client.send(0, 9, produce_body(batch(b"a"), name, acks=0))
    assert client.closed_by_peer()
    (line,) = warnings_of(caplog)
    assert len(line) < 600


def test_a_decompression_bomb_costs_nothing(broker: LiveBroker, client: WireClient) -> None:
    from streamactors.broker.records.compression import Compression

    broker.create_topic("compacted", cleanup_policy="compact")
    bomb = batch(bytes(300 << 20), compression=Compression.ZSTD)
    assert len(bomb) < 1_000_000
    code = client.call(0, 9, produce_body(bomb, "compacted")).responses[0].partition_responses[0].error_code
    assert code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)


def _lying(records: bytes, position: int, value: bytes) -> bytes:
    """Change a field of a batch and make its CRC right again."""
    from crc32c import crc32c

    changed = records[:position] + value + records[position + len(value) :]
    return changed[:17] + struct.pack(">I", crc32c(changed[21:])) + changed[21:]


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (8, struct.pack(">i", 1 << 30)),  # batch length
        (8, struct.pack(">i", -1)),
        (23, struct.pack(">i", 1 << 30)),  # last offset delta
        (23, struct.pack(">i", -1)),
        (57, struct.pack(">i", 1 << 30)),  # record count
        (57, struct.pack(">i", 0)),
        (57, struct.pack(">i", -5)),
        (21, struct.pack(">h", 7)),  # a codec that does not exist
        (21, struct.pack(">h", 0x20)),  # a control batch
    ],
)
def test_a_batch_that_lies_about_itself_is_refused(
    broker: LiveBroker, client: WireClient, position: int, value: bytes
) -> None:
    before = broker.partition("orders").log_end_offset
    records = _lying(batch(b"a", b"b"), position, value)
    answer = client.call(0, 9, produce_body(records)).responses[0].partition_responses[0]
    assert ErrorCode(answer.error_code) in (
        ErrorCode.INVALID_RECORD,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    )
    assert broker.partition("orders").log_end_offset == before


# ---- handlers that go wrong ----


def _serve(broker: LiveBroker, api: Api) -> None:
    broker.on_data_plane(lambda: broker.broker.routes.loaded.__setitem__(api.key, api))


@pytest.fixture
def unused_key(broker: LiveBroker) -> Iterator[int]:
    yield 41  # DescribeDelegationToken: error_code at its top
    broker.on_data_plane(lambda: broker.broker.routes.loaded.pop(41, None))


BODY: dict[str, Any] = {"owners": []}


def test_a_handler_that_raises_is_an_unknown_server_error(
    broker: LiveBroker, client: WireClient, unused_key: int, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(request: Any) -> Any:
        raise RuntimeError("a bug in a handler")

    _serve(broker, Api(unused_key, (1, 3), anyone, handle))
    assert client.call(unused_key, 3, BODY).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "a bug in a handler" in caplog.text
    still_serves(broker)


def test_a_handler_may_refuse(broker: LiveBroker, client: WireClient, unused_key: int) -> None:
    def handle(request: Any) -> Any:
        raise Refusal(ErrorCode.POLICY_VIOLATION, "not like this")

    _serve(broker, Api(unused_key, (1, 3), anyone, handle))
    assert client.call(unused_key, 3, BODY).error_code == ErrorCode.POLICY_VIOLATION


def test_a_client_without_the_right_is_refused_before_the_handler(
    broker: LiveBroker, client: WireClient, unused_key: int
) -> None:
    calls: list[Any] = []
    api = Api(unused_key, (1, 3), lambda request: ErrorCode.CLUSTER_AUTHORIZATION_FAILED, calls.append)
    _serve(broker, api)
    assert client.call(unused_key, 3, BODY).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert calls == []


def test_an_answer_that_cannot_be_encoded_closes_the_connection(
    broker: LiveBroker, client: WireClient, unused_key: int, caplog: pytest.LogCaptureFixture
) -> None:
    _serve(broker, Api(unused_key, (1, 3), anyone, lambda request: {"no_such_field": 1}))
    client.send(unused_key, 3, BODY)
    assert client.closed_by_peer()
    assert "no_such_field" in caplog.text
    still_serves(broker)


def test_a_second_answer_is_dropped(
    broker: LiveBroker, client: WireClient, unused_key: int, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(request: Any) -> Any:
        request.answer({"error_code": 1})
        request.answer({"error_code": 2})
        return LATER

    _serve(broker, Api(unused_key, (1, 3), anyone, handle))
    assert client.call(unused_key, 3, BODY).error_code == 1
    assert "answered twice" in caplog.text
    assert client.call(18, 0, {}).error_code == 0


def test_an_answer_from_another_thread_finds_its_way(broker: LiveBroker, client: WireClient, unused_key: int) -> None:
    import threading

    def handle(request: Any) -> Any:
        threading.Thread(target=lambda: request.answer({"error_code": 3})).start()
        return LATER

    _serve(broker, Api(unused_key, (1, 3), anyone, handle))
    assert client.call(unused_key, 3, BODY).error_code == 3


# ---- fuzzing ----


def _fuzz_once(broker: LiveBroker, seed: int) -> None:
    rng = random.Random(seed)
    with broker.client() as client:
        try:
            for _ in range(rng.randrange(1, 6)):
                content = random_request(rng)
                stream = framed(content) if rng.random() < 0.9 else content
                while stream:
                    cut = rng.randrange(1, len(stream) + 1)
                    client.send_raw(stream[:cut])
                    stream = stream[cut:]
        except (BrokenPipeError, ConnectionResetError):
            pass
    broker._clients.clear()


@given(seed=st.integers(0, 1 << 60))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_sent_the_broker_serves_on(broker: LiveBroker, caplog: pytest.LogCaptureFixture, seed: int) -> None:
    caplog.clear()
    _fuzz_once(broker, seed)
    still_serves(broker)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR and record.exc_info]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_minutes_of_random_requests(broker: LiveBroker, caplog: pytest.LogCaptureFixture) -> None:
    seed = random.SystemRandom().getrandbits(60)
    end = time.monotonic() + 600
    rounds = 0
    while time.monotonic() < end:
        caplog.clear()
        for _ in range(100):
            _fuzz_once(broker, seed + rounds)
            rounds += 1
        still_serves(broker)
        broken = [record for record in caplog.records if record.levelno >= logging.ERROR and record.exc_info]
        assert not broken, f"seeds from {seed + rounds - 100}: {broken[0].getMessage()}"
