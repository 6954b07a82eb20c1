"""The requests of brokers to a controller of Apache Kafka 4.4.0 and to one of ours: every answer is the same, but for those explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.broker.wire import WireClient
from tests.differential.apache_kafka import broker as apache
from tests.differential.controller_script import Conversation
from tests.differential.test_answers import plain
from tests.differential.three_nodes import ThreeNodes

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(300),
]
_SNAPSHOTS = "Apache Kafka 4.4.0 answers UNKNOWN_SERVER_ERROR to this request; the error that is meant comes from here"
DIFFERENCES: Final = {
    "snapshot of an older epoch": _SNAPSHOTS,
    "snapshot of a newer epoch": _SNAPSHOTS,
    "snapshot that does not exist": _SNAPSHOTS,
    "snapshot of another topic": _SNAPSHOTS,
}
ANY: Final = ("broker_epoch", "leader_epoch", "host", "response_data", "error_message")


def told_by(folder: Path, *, ours: bool) -> dict[str, Any]:
    with ThreeNodes(folder, ours=ours, count=1) as cluster:
        clients = [WireClient(*_address(each)) for each in (cluster.controller, cluster.nodes[1].address)]
        try:
            told = Conversation(*clients).play()
        finally:
            for client in clients:
                client.socket.close()
    return {name: _comparable(plain(answer)) for name, answer in told.items()}


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _comparable(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {
            name: "<any>" if name in ANY and value not in (None, -1, 0) else _comparable(value)
            for name, value in answer.items()
        }
    return [_comparable(each) for each in answer] if isinstance(answer, list) else answer


def test_a_controller_answers_brokers_as_apache_kafka_does(tmp_path: Path) -> None:
    theirs = told_by(tmp_path / "theirs", ours=False)
    ours = told_by(tmp_path / "ours", ours=True)
    assert theirs.keys() == ours.keys()
    differing = {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}
    assert differing.keys() == DIFFERENCES.keys(), differing
