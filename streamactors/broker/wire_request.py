"""Creates and deletes topics over its own socket, without a Kafka client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.security.client_login import ListenerCredentials
from streamactors.broker.wire_connection import WireConnection

TIMEOUT_S: Final = 30.0
CREATE_TOPICS: Final = (19, 7)
DELETE_TOPICS: Final = (20, 6)


def create_topic(
    address: str,
    name: str,
    partitions: int,
    settings: Mapping[str, str],
    credentials: ListenerCredentials | None = None,
    replication_factor: int = -1,
) -> None:
    """Create a topic; replication factor -1 is the default of the broker. Raises Refusal, OSError."""
    configs = [{"name": key, "value": value} for key, value in settings.items()]
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replication_factor,
        "configs": configs,
        "assignments": (),
    }
    answer = call(
        address, CREATE_TOPICS, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False}, credentials
    )
    _check(name, answer.topics[0])


def delete_topic(address: str, name: str, credentials: ListenerCredentials | None = None) -> None:
    """Delete a topic if it exists. Raises Refusal, OSError."""
    topic = {"name": name, "topic_id": None}
    answer = call(address, DELETE_TOPICS, {"topics": [topic], "timeout_ms": 30_000}, credentials)
    if answer.responses[0].error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        _check(name, answer.responses[0])


def _check(name: str, result: Any) -> None:
    if result.error_code != ErrorCode.NONE:
        code = ErrorCode(result.error_code)
        raise Refusal(code, f"topic {name}: {result.error_message or code.name}")


def call(
    address: str, api: tuple[int, int], body: Mapping[str, Any], credentials: ListenerCredentials | None = None
) -> Any:
    """Send one request to the first of the addresses, and return the decoded answer. Raises OSError."""
    host, _, port = address.split(",")[0].rpartition(":")
    with WireConnection(host.strip("[]"), int(port), credentials or ListenerCredentials(), TIMEOUT_S) as connection:
        return connection.ask(api, body)
