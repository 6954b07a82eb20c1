"""The same requests to Apache Kafka 4.4.0 and to this broker: every answer is the same, but for those listed and explained.

Left out of the comparison is what cannot be the same: ids, ports, clocks, folders, free space, and the order of lists.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker import Cluster
from streamactors.broker.protocol.decoding import Decoded
from tests.broker.wire import WireClient
from tests.differential import borderline_script, edges_script, request_script
from tests.differential.apache_kafka import broker as apache
from tests.differential.known_differences import (
    DIFFERENCES,
    ONLY_WORDS,
    without_general_differences,
    without_words,
)
from tests.differential.request_script import (
    ALTER_CONFIGS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    INCREMENTAL,
    NOW_MS,
)

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]

SCRIPT = [*borderline_script.FIRST, *request_script.SCRIPT, *borderline_script.SCRIPT, *edges_script.SCRIPT]
assert len({step.name for step in SCRIPT}) == len(SCRIPT)

ANSWER_WITHIN_S = 15
CHANGES = (CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, ALTER_CONFIGS, INCREMENTAL)
ANY_TIME = ("log_append_time_ms", "last_fetch_timestamp", "last_caught_up_timestamp")
ANY_VALUE = (
    *("cluster_id", "port", "log_dir", "total_bytes", "usable_bytes", "topic_id"),
    *ANY_TIME,
)


def play(address: str, after_a_change: Callable[[WireClient], None] = lambda client: None) -> dict[str, Any]:
    """Send the script; return each step's answer, or how the connection ended."""
    host, port = address.split(":")
    client = connect(host, int(port))
    seen: dict[str, Any] = {}
    for step in SCRIPT:
        body: Mapping[str, Any] = step.body(seen) if callable(step.body) else step.body
        try:
            seen[step.name] = client.call(step.key, step.version, body)
            if step.key in CHANGES and not body.get("validate_only"):
                after_a_change(client)
        except (ConnectionError, TimeoutError) as error:
            seen[step.name] = "no answer" if isinstance(error, TimeoutError) else "closed the connection"
            client.close()
            client = connect(host, int(port))
    client.close()
    return seen


def broker_follows(client: WireClient) -> None:
    """Wait until Apache Kafka's broker has heard of all that its controller has answered to.

    It follows the controller by some milliseconds, more on a busy machine, and hears of changes in order. So one more change, to a
    setting that nobody asks for, is made and looked for, and then another one that takes it away again: when the second is seen, all
    before the first has been carried out.
    """
    resource = {"resource_type": edges_script.GROUP, "resource_name": "of nobody"}
    name = "consumer.session.timeout.ms"
    deadline = time.monotonic() + ANSWER_WITHIN_S
    for operation, value in ((edges_script.SET, "50000"), (edges_script.DELETE, None)):
        change = {"name": name, "config_operation": operation, "value": value}
        client.call(INCREMENTAL, 1, {"resources": [{**resource, "configs": [change]}], "validate_only": False})
        asked = {
            "resources": [{**resource, "configuration_keys": [name]}],
            "include_synonyms": False,
            "include_documentation": False,
        }
        while (client.call(DESCRIBE_CONFIGS, 4, asked).results[0].configs[0].value == "50000") != (value == "50000"):
            assert time.monotonic() < deadline, "Apache Kafka's broker has not heard of a change"


def connect(host: str, port: int) -> WireClient:
    client = WireClient(host, port)
    client.socket.settimeout(ANSWER_WITHIN_S)
    return client


def comparable(answer: Any) -> Any:
    """Return an answer without what cannot be the same."""
    return in_order(without_general_differences(plain(answer)))


def in_order(value: Any) -> Any:
    """Sort every list: brokers tell most of theirs in the order of a hash table."""
    if isinstance(value, dict):
        return {name: in_order(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted(map(in_order, value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


def plain(value: Any, name: str = "") -> Any:
    """Return an answer as dictionaries and lists, with ids, ports and clocks blotted out."""
    if isinstance(value, Decoded):
        names = sorted({n for kind in type(value).__mro__ for n in getattr(kind, "__slots__", ())})
        return {n: plain(getattr(value, n), n) for n in names}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if name == "partition_size" or (name == "producer_id" and value >= 0):
        return "<any>"
    if name in ANY_VALUE and value not in (None, 0, -1, "", ()):
        return "<any>"
    if name in ("high_watermark", "log_end_offset") and isinstance(value, int) and value > 0:
        return "<offset>"
    if isinstance(value, int) and value > NOW_MS + 10**10:
        return "<now>"
    if isinstance(value, uuid.UUID):
        return "<id>"
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Any]]:
    """Step -> (Apache Kafka's answer, ours)."""
    # the records are years old: on a slow machine its retention, which begins after 30 s, would delete them meanwhile
    settings = {"log.initial.task.delay.ms": str(3_600_000)}
    kafka = apache.ApacheKafka(Path(tmp_path_factory.mktemp("kafka")) / "data", settings=settings)
    kafka.start()
    try:
        theirs = play(kafka.address, broker_follows)
    finally:
        kafka.stop()
    with Cluster(process=True, listen="127.0.0.1:0") as cluster:
        ours = play(cluster.bootstrap_servers)
    return {step.name: (comparable(theirs[step.name]), comparable(ours[step.name])) for step in SCRIPT}


@pytest.mark.parametrize("name", [step.name for step in SCRIPT])
def test_the_answer_is_apache_kafkas(answers: dict[str, tuple[Any, Any]], name: str) -> None:
    theirs, ours = answers[name]
    if name in DIFFERENCES:
        assert ours != theirs, f"it is the same by now: take {name!r} off the list of differences"
        if name in ONLY_WORDS:
            assert without_words(ours) == without_words(theirs)
    else:
        assert ours == theirs


def test_every_difference_is_about_a_request() -> None:
    assert DIFFERENCES.keys() <= {step.name for step in SCRIPT}
