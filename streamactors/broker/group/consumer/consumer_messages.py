"""The messages of a coordinator about consumer groups.

Frozen. `reply_to` is called once with the answer, on the data plane's thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.consumer.consumer_events import MemberAnswer, MemberHeartbeat
from streamactors.broker.group.consumer.consumer_group import ResolvedRegex

HeartbeatReply = Callable[[ErrorCode, str | None, MemberAnswer | None], object]
"""Called with (error, its text, the answer)."""


@dataclass(frozen=True, slots=True)
class ToConsumerGroup:
    """A heartbeat of a member. `may_describe` says which topics its regular expression may match."""

    reply_to: HeartbeatReply
    group_id: str
    beat: MemberHeartbeat
    may_describe: Callable[[str], bool]

    def refuse(self, error: ErrorCode) -> None:
        self.reply_to(error, None, None)


@dataclass(frozen=True, slots=True)
class RegexesResolved:
    """The regular expressions of a group are resolved; `found` None if that failed."""

    group_id: str
    found: Mapping[str, ResolvedRegex] | None


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """These topics were created, changed or deleted."""

    names: frozenset[str]
    created_at: int = 0  # version of the metadata if topics were created, 0 otherwise


class SessionExpired(NamedTuple):
    """A member was silent for its session timeout."""

    member_id: str


class RebalanceExpired(NamedTuple):
    """A member did not give partitions back within its rebalance timeout."""

    member_id: str
    epoch: int
