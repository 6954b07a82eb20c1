"""A dynamic setting that has no effect is named in the log, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.live_broker import LiveBroker

SET = 0
BROKERS = 4


@pytest.mark.expects_log("has no effect")
def test_a_dynamic_setting_without_effect_is_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def change(name: str, value: str) -> int:
        asked = {"name": name, "config_operation": SET, "value": value}
        resource = {"resource_type": BROKERS, "resource_name": "", "configs": [asked]}
        (answer,) = client.call(44, 1, {"resources": [resource], "validate_only": False}).responses
        return int(answer.error_code)

    with LiveBroker(tmp_path) as broker, broker.client() as client:
        for size in ("700000", "800000"):
            assert change("group.coordinator.cached.buffer.max.bytes", size) == 0
        assert change("message.max.bytes", "70000") == 0
        assert client.call(18, 0, {}).error_code == 0
    told = [each for each in caplog.messages if "has no effect" in each]
    assert told == [
        "group.coordinator.cached.buffer.max.bytes has no effect: this broker has no such threads or queues"
    ]
