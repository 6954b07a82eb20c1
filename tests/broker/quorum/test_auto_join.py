"""A controller that asks for its vote by itself (controller.quorum.auto.join.enable)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer, ChannelBroken
from streamactors.broker.quorum.auto_join import ADD, REMOVE, AutoJoin, Wish, wish
from streamactors.broker.quorum.voter_set import Voter, VoterEndpoint, VoterSet, voter_set

FIRST, OWN = (Voter(n, uuid.UUID(int=n + 1_000), (VoterEndpoint("C", "127.0.0.1", n),)) for n in (1, 2))
REPLACED = Voter(OWN.node_id, uuid.UUID(int=7), OWN.endpoints)
YES = ChannelAnswer(SimpleNamespace(error_code=0, error_message=None))
LATE = ChannelAnswer(SimpleNamespace(error_code=7, error_message="another change is not committed"))


@pytest.mark.parametrize(
    ("voters", "wanted"),
    [
        (None, None),
        (voter_set([FIRST]), Wish(ADD, OWN)),
        (voter_set([FIRST, REPLACED]), Wish(REMOVE, REPLACED)),
        (voter_set([FIRST, OWN]), None),
    ],
    ids=["the settings name the voters", "no vote", "its disk was replaced", "a voter"],
)
def test_a_node_asks_for_its_vote_and_gives_up_that_of_its_former_folder(
    voters: VoterSet | None, wanted: Wish | None
) -> None:
    assert wish(voters, OWN) == wanted


def test_the_request_wants_its_answer_before_the_commit_which_may_need_the_new_vote() -> None:
    added = Wish(ADD, OWN).body("cluster", 2_000)
    assert added["ack_when_committed"] is False
    assert (added["voter_id"], added["voter_directory_id"], added["timeout_ms"]) == (2, OWN.directory_id, 2_000)
    assert added["listeners"] == [{"name": "C", "host": "127.0.0.1", "port": 2}]
    removed = Wish(REMOVE, REPLACED).body("cluster", 2_000)
    assert removed == {"cluster_id": "cluster", "voter_id": 2, "voter_directory_id": REPLACED.directory_id}


class Rig:
    """A node that follows a leader. The test moves the time and answers."""

    def __init__(self, voters: VoterSet) -> None:
        self.voters = voters
        self.timers: list[Callable[[], object]] = []
        self.asked: list[Wish] = []
        self.answers: list[Any] = []
        self.join = AutoJoin(self, 2_000, lambda: wish(self.voters, OWN), self._ask)  # type: ignore[arg-type]

    def call_later(self, delay_ms: float, call: Callable[[], object]) -> Any:
        assert delay_ms == 2_000
        self.timers.append(call)
        return SimpleNamespace(cancel=lambda: call in self.timers and self.timers.remove(call))

    def _ask(self, wanted: Wish, then: Any) -> None:
        self.asked.append(wanted)
        self.answers.append(then)

    def pass_period(self) -> None:
        (call,) = self.timers
        self.timers.clear()
        call()


def test_a_node_asks_after_each_period_until_it_is_a_voter_and_again_when_it_was_removed() -> None:
    rig = Rig(voter_set([FIRST, REPLACED]))
    assert rig.timers == []  # no leader is known
    rig.join.leader_changed(follows=True)
    rig.pass_period()
    rig.pass_period()  # the first request has no answer yet
    assert rig.asked == [Wish(REMOVE, REPLACED)]
    rig.answers.pop()(YES)
    rig.voters = voter_set([FIRST])
    rig.pass_period()
    rig.answers.pop()(LATE)
    rig.pass_period()
    rig.answers.pop()(ChannelAnswer(error=ChannelBroken("closed")))
    rig.pass_period()
    assert rig.asked[1:] == [Wish(ADD, OWN)] * 3
    rig.answers.pop()(YES)
    rig.voters = voter_set([FIRST, OWN])
    rig.pass_period()
    assert len(rig.asked) == 4
    rig.voters = voter_set([FIRST])
    rig.pass_period()
    assert len(rig.asked) == 5


def test_a_node_without_a_leader_asks_nobody_also_when_an_answer_comes_late() -> None:
    rig = Rig(voter_set([FIRST]))
    rig.join.leader_changed(follows=True)
    rig.pass_period()
    rig.join.leader_changed(follows=False)
    rig.answers.pop()(YES)
    assert rig.timers == []
    rig.join.leader_changed(follows=True)
    rig.pass_period()
    assert len(rig.asked) == 2


def test_a_broker_without_the_role_of_a_controller_cannot_join_the_voters() -> None:
    settings = {
        "process.roles": "broker",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "controller.quorum.auto.join.enable": "true",
    }
    with pytest.raises(InvalidSetting, match=r"the role of a controller in process\.roles"):
        BrokerConfig.of(settings)
