"""Reading back what was acknowledged, while leaderships move."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.cluster import acked
from streamactors.broker.errors import BrokerError, ErrorCode
from tests.broker.live_broker import batch


class Moving:
    """A cluster of two brokers whose partition has a leader, then none, and then the other one."""

    def __init__(self, leaders: list[int]) -> None:
        self.leaders = leaders
        self.asked: list[str] = []

    def brokers(self) -> dict[int, str]:
        return {1: "one", 2: "two"}

    def metadata(self, topics: list[str]) -> Any:
        leader = self.leaders.pop(0) if len(self.leaders) > 1 else self.leaders[0]
        partition = SimpleNamespace(partition_index=0, leader_id=leader)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[partition])])

    def ask(self, address: str, api: tuple[int, int], body: Any) -> Any:
        self.asked.append(address)
        wanted = body["topics"][0]["partitions"][0]["fetch_offset"]
        found = SimpleNamespace(error_code=0, log_start_offset=0, records=batch(b"a", b"b") if not wanted else b"")
        if address == "one":
            found = SimpleNamespace(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, log_start_offset=-1, records=None)
        return SimpleNamespace(responses=[SimpleNamespace(partitions=[found])])


def test_the_new_leader_of_a_partition_is_waited_for() -> None:
    view: Any = Moving([1, 1, -1, 2])
    assert acked.check_acked(view, [("t", b"a"), ("t", b"b")]) == 2
    assert view.asked == ["one", "two", "two"]


def test_a_partition_without_a_leader_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acked, "LEADER_TIMEOUT_S", 0.1)
    view: Any = Moving([-1])
    with pytest.raises(BrokerError, match="t-0 has no leader, so it cannot be read"):
        acked.check_acked(view, [("t", b"a")])
