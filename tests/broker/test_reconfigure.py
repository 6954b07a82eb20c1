"""Settings of the broker that are changed while it runs reach the parts that keep them, and are kept over a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.broker.live_broker import LiveBroker

BROKER = 4


def alter(broker: LiveBroker, **settings: int) -> int:
    configs = [
        {"name": key.replace("_", "."), "config_operation": 0, "value": str(value)} for key, value in settings.items()
    ]
    resource = {"resource_type": BROKER, "resource_name": "1", "configs": configs}
    with broker.client() as client:
        answer = client.call(44, 1, {"resources": [resource], "validate_only": False})
    code: int = answer.responses[0].error_code
    return code


def kept(broker: LiveBroker) -> Any:
    node = broker.node
    return (
        node.processor.limits.max_connections,
        node.logs.cleaner.dedupe_bytes,
        node.logs.config.producer_id_expiration_ms,
    )


def test_new_limits_hold_at_once_and_after_a_restart(tmp_path: Path) -> None:
    with LiveBroker(tmp_path) as broker:
        assert (
            alter(broker, max_connections=3, log_cleaner_dedupe_buffer_size=1_000_000, producer_id_expiration_ms=7) == 0
        )
        assert broker.on_data_plane(lambda: kept(broker)) == (3, 900_000, 7)
        clients = [broker.client() for _ in range(3)]
        for client in clients:
            assert client.call(18, 0, {}).error_code == 0
        assert broker.client().closed_by_peer()
    with LiveBroker(tmp_path) as broker:
        assert broker.on_data_plane(lambda: kept(broker)) == (3, 900_000, 7)
