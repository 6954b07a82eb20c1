"""Settings of groups (config resource 32) beside Apache Kafka 4.4.0: the same checks in the same words, and the same sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamactors.broker import Cluster
from streamactors.broker.cluster import profile
from streamactors.broker.config.group_settings import GroupConfigSettings
from tests.broker.wire import WireClient
from tests.differential.apache_kafka import broker as apache
from tests.differential.consumer_history import plain

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]

SET, DELETE, APPEND = 0, 1, 2
SESSION, BEAT, INTERVAL = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)


def alter(*changes: tuple[str, str | None], name: str = "g", operation: int = SET) -> tuple[int, int, dict[str, Any]]:
    configs = [{"name": each, "config_operation": operation, "value": value} for each, value in changes]
    return (
        44,
        1,
        {"resources": [{"resource_type": 32, "resource_name": name, "configs": configs}], "validate_only": False},
    )


def describe(name: str = "g") -> tuple[int, int, dict[str, Any]]:
    resource = {"resource_type": 32, "resource_name": name, "configuration_keys": None}
    return 32, 4, {"resources": [resource], "include_synonyms": True, "include_documentation": False}


LISTED = 74, 1, {"resource_types": [32]}
WHOLE = {"resource_type": 32, "resource_name": "h", "configs": [{"name": SESSION, "value": "46000"}]}
SCRIPT: dict[str, tuple[int, int, dict[str, Any]]] = {
    "of a group that has none": describe(),
    "a session timeout": alter((SESSION, "50000")),
    "it": describe(),
    "a session timeout below the bound": alter((SESSION, "1")),
    "a session timeout above the bound": alter((SESSION, "60001")),
    "no number": alter((SESSION, "x")),
    "two at once": alter((BEAT, "15000"), (SESSION, "45000")),
    "a heartbeat above the bound": alter((BEAT, "20000")),
    "a heartbeat of nothing": alter((BEAT, "0")),
    "an unknown name": alter(("nope", "1")),
    "no group": alter((SESSION, "50000"), name=""),
    "of no group": describe(""),
    "an interval above the bound": alter((INTERVAL, "16000")),
    "no interval": alter((INTERVAL, "0")),
    "nothing more": alter((SESSION, None), operation=DELETE),
    "more of a number": alter((SESSION, "5"), operation=APPEND),
    "a reset": alter(("share.auto.offset.reset", "earliest")),
    "a reset by duration": alter(("share.auto.offset.reset", "by_duration:PT1H")),
    "an unknown reset": alter(("share.auto.offset.reset", "nope")),
    "an unknown isolation": alter(("share.isolation.level", "nope")),
    "a lock below the bound": alter(("share.record.lock.duration.ms", "5000")),
    "too many deliveries": alter(("share.delivery.count.limit", "11")),
    "what has settings": LISTED,
    "of all": describe(),
    "all of another group": (33, 2, {"resources": [WHOLE], "validate_only": False}),
    "what has settings now": LISTED,
    "a strange name": alter((SESSION, "47000"), name="a b/c"),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    kafka = apache.ApacheKafka(Path(tmp_path_factory.mktemp("kafka")) / "data")
    kafka.start()
    try:
        theirs = played(kafka.address)
    finally:
        kafka.stop()
    delay = "group.streams.initial.rebalance.delay.ms"  # a `Cluster` has none, and the answers name it
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profile, "PROFILE", {name: value for name, value in profile.PROFILE.items() if name != delay})
        with Cluster(listen="127.0.0.1:0") as cluster:
            return theirs, played(cluster.bootstrap_servers)


def played(address: str) -> dict[str, Any]:
    host, port = address.split(":")
    client = WireClient(host, int(port))
    seen = {}
    for name, request in SCRIPT.items():
        seen[name] = plain(client.call(*request))
        for result in seen[name].get("results", ()):
            # those of Kafka Streams and of dead letter queues are not here
            result["configs"] = [each for each in result["configs"] if each["name"] in GroupConfigSettings.declared()]
    client.close()
    return seen


@pytest.mark.parametrize("name", SCRIPT)
def test_the_answer_is_apache_kafkas(answers: tuple[dict[str, Any], dict[str, Any]], name: str) -> None:
    theirs, ours = answers
    assert ours[name] == theirs[name]
