"""What the active controller is asked for when an answer of it is lost."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.replication.isr_publisher import IsrPublisher
from streamactors.broker.replication.isr_requests import AlterPartition, IsrOutcome, PartitionsAltered
from streamactors.broker.replication.leader_state import LeaderState


class Leading:
    """As much of a hosted partition as the publisher needs."""

    topic_id, index = "orders", 0

    def __init__(self, state: LeaderState) -> None:
        self.leader_state = state
        self.update_high_watermark = self.changed = lambda: None


class Controllers:
    """Keeps what it is asked."""

    broker_epoch = 101

    def __init__(self) -> None:
        self.asked: list[dict[int, int]] = []

    def submit(self, command: AlterPartition, reply: Callable[[PartitionsAltered], object]) -> None:
        (proposal,) = command.proposals
        self.asked.append(dict(proposal.isr))
        self.then = reply


def test_a_proposal_that_is_sent_again_names_the_broker_epoch_under_which_the_follower_had_everything() -> None:
    later: list[Callable[[], None]] = []
    node: Any = SimpleNamespace(
        node_id=1,
        data_plane=SimpleNamespace(call_later=lambda delay_ms, call: later.append(call)),
        metadata=SimpleNamespace(image=SimpleNamespace(brokers={})),
    )
    state = LeaderState(1, epoch=5, start_offset=0, replicas=(1, 2), isr=(1,), partition_epoch=7, now_ms=0.0)
    controllers = Controllers()
    publisher = IsrPublisher(node, controllers, controllers)
    state.fetched(2, 102, 30, 30, 1.0)
    proposal = state.growth(2, 30, lambda replica, epoch: True)
    assert proposal is not None
    publisher.propose(Leading(state), proposal)  # type: ignore[arg-type]
    later.pop()()
    state.fetched(2, 110, 24, 30, 2.0)  # it has lost records in a power cut, and has registered again
    controllers.then(PartitionsAltered(ErrorCode.NOT_CONTROLLER))  # the answer is lost
    later.pop()()
    assert controllers.asked == [{1: 101, 2: 102}, {1: 101, 2: 102}]  # the controller refuses an old epoch


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR])
@pytest.mark.parametrize("about", ["the request", "the partition"])
def test_a_proposal_that_the_controller_could_not_carry_out_is_sent_again(code: ErrorCode, about: str) -> None:
    # The disk of the controller failed -> the proposal counted as neither accepted nor refused, and nothing was sent any more: the ISR stayed as it was
    # until the next election, and a member that lagged held the high watermark back.
    later: list[Callable[[], None]] = []
    node: Any = SimpleNamespace(
        node_id=1,
        data_plane=SimpleNamespace(call_later=lambda delay_ms, call: later.append(call)),
        metadata=SimpleNamespace(image=SimpleNamespace(brokers={})),
    )
    state = LeaderState(1, epoch=5, start_offset=0, replicas=(1, 2), isr=(1, 2), partition_epoch=7, now_ms=0.0)
    controllers = Controllers()
    publisher = IsrPublisher(node, controllers, controllers)
    proposal = state.shrinkage(30, 100.0, 10.0)
    assert proposal is not None
    publisher.propose(Leading(state), proposal)  # type: ignore[arg-type]
    later.pop()()
    of_request = about == "the request"
    controllers.then(PartitionsAltered(code) if of_request else PartitionsAltered(ErrorCode.NONE, (IsrOutcome(code),)))
    later.pop()()
    assert controllers.asked == [{1: 101}, {1: 101}]
