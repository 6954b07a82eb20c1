"""Adding a voter: when the answer comes (KIP-1186)."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode, StorageError
from streamactors.broker.quorum import voter_requests
from streamactors.broker.quorum.raft.raft_effects import AppendVoters
from streamactors.broker.quorum.raft.roles import Role
from streamactors.broker.quorum.voter_requests import Add, Changed, VoterRequests
from streamactors.broker.quorum.voter_set import Voter, VoterEndpoint, voter_set

FIRST, SECOND = (Voter(n, uuid.UUID(int=n + 1_000), (VoterEndpoint("C", "127.0.0.1", n),)) for n in (1, 2))


class Rig:
    """A leader with one voter; another node asks for a vote. The test commits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.appended: list[Any] = []
        self.error: StorageError | None = None
        self.timers: list[Any] = []
        quorum: Any = SimpleNamespace(
            state=SimpleNamespace(role=Role.LEADER, voters={1}),
            voter_set=voter_set([FIRST]),
            end_offset=10,
            append_voters=self._append,
        )
        monkeypatch.setattr(voter_requests, "add_voter", lambda *_, **__: AppendVoters(frozenset({1, 2})))
        timers: Any = SimpleNamespace(call_later=self._call_later)
        self.requests = VoterRequests(quorum, timers, lambda voter, got: got(voter.kraft_versions))
        self.answers: list[Changed] = []

    def _append(self, voters: Any) -> None:
        if self.error is not None:
            raise self.error
        self.appended.append(voters)

    def _call_later(self, _delay_ms: float, call: Any) -> Any:
        self.timers.append(call)
        return SimpleNamespace(cancel=lambda: self.timers.remove(call) if call in self.timers else None)

    def add(self, *, when_committed: bool) -> None:
        self.requests.asked(Add(SECOND, when_committed=when_committed), self.answers.append)


def test_version_0_is_answered_when_the_new_set_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.add(when_committed=True)
    assert rig.answers == []
    rig.requests.committed(11)
    assert rig.answers == [Changed()]
    assert rig.timers == []


def test_a_node_that_adds_itself_is_answered_before_the_commit_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # An Apache Kafka controller with controller.quorum.auto.join.enable asked every 2 s forever: version 0 has no field for this.
    rig = Rig(monkeypatch)
    rig.add(when_committed=False)
    assert rig.answers == [Changed()]
    assert len(rig.appended) == 1
    rig.requests.committed(11)
    assert rig.answers == [Changed()]
    assert rig.timers == []


def test_a_record_that_cannot_be_written_is_an_error_and_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.error = StorageError("disk full")
    rig.add(when_committed=False)
    assert [each.code for each in rig.answers] == [ErrorCode.KAFKA_STORAGE_ERROR]
