"""Commits and lookups of a consumer: requests that a caller waits for, and commits whose outcome a later poll reports.

Owner: the consumer. A commit to a coordinator that moves is sent again, as librdkafka does, for as long as a session may last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.kafka.client.connection import ck
from streamactors.simulation.client.base import limit_ms
from streamactors.simulation.client.errors import Told, answered, failure, kafka_error
from streamactors.simulation.client.link import Link
from streamactors.simulation.client.membership.member import Identity, Membership
from streamactors.simulation.cluster.apis.data import EARLIEST, LATEST, ListOffset, list_offset
from streamactors.simulation.cluster.apis.groups import Commit, FetchCommitted, offset_commit, offset_fetch

_AGAIN_MS: Final = 100.0
_TRIES: Final = 50
_MOVING: Final = frozenset(
    {
        None,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
Outcome = Callable[[Any, list[Any]], None]
"""Called with the error of the whole commit, or None, and the partitions with their errors."""


class Offsets:
    """The offsets of one consumer."""

    def __init__(self, link: Link, group_id: str, committed_only: bool) -> None:
        self._link = link
        self._group_id = group_id
        self._committed_only = committed_only

    # --- committing ---

    def commit(self, offsets: Sequence[Any], member: Membership | None, then: Outcome) -> None:
        """Send a commit; `then` gets the outcome."""
        told = tuple((each.topic, each.partition, each.offset, each.metadata or "") for each in offsets)
        self._send(told, member, then, _TRIES)

    def _send(self, told: tuple[Any, ...], member: Membership | None, then: Outcome, tries: int) -> None:
        member_id, instance, generation, version = Identity() if member is None else member.identity()
        asked = Commit(self._group_id, member_id, instance, generation, told, version)

        def after(error: ErrorCode | None, errors: Sequence[ErrorCode] | None) -> None:
            codes = [answered(error)] * len(told) if errors is None else [int(each) for each in errors]
            moving = error in _MOVING or any(each in _MOVING for each in errors or ())
            if moving and tries > 1:
                self._link.later(_AGAIN_MS, lambda: self._send(told, member, then, tries - 1), "commit again")
                return
            partitions = [
                Told.of(topic, partition, offset, code, metadata)
                for (topic, partition, offset, metadata), code in zip(told, codes, strict=True)
            ]
            bad = [code for code in codes if code]
            then(kafka_error(bad[-1]) if bad and len(bad) == len(codes) else None, partitions)

        self._link.ask(offset_commit, self._link.cluster.group_coordinator(self._group_id), asked, after)

    def commit_and_wait(self, offsets: Sequence[Any], member: Membership | None) -> list[Any]:
        """Commit, and return the partitions with their errors. Raises KafkaException."""
        found: list[tuple[Any, list[Any]]] = []
        self.commit(offsets, member, lambda error, partitions: found.append((error, partitions)))
        self._link.world.wait(lambda: bool(found), None)
        error, partitions = found[0]
        if error is not None:
            raise ck.KafkaException(error)
        return partitions

    # --- looking up ---

    def committed(self, partitions: Sequence[Any], timeout_s: float) -> list[Any]:
        """Return the committed offsets, OFFSET_INVALID for none. Raises KafkaException."""
        keys = tuple((each.topic, each.partition) for each in partitions)
        found: list[tuple[ErrorCode | None, Any]] = []

        def ask() -> None:
            asked = FetchCommitted(self._group_id, keys)
            self._link.ask(offset_fetch, self._link.cluster.group_coordinator(self._group_id), asked, after)

        def after(error: ErrorCode | None, answer: Any) -> None:
            if error in _MOVING:
                self._link.later(_AGAIN_MS, ask, "committed again")
            else:
                found.append((error, answer))

        ask()
        if not self._link.world.wait(lambda: bool(found), limit_ms(timeout_s)):
            raise failure(ck.KafkaError._TIMED_OUT)
        error, offsets = found[0]
        if error is not ErrorCode.NONE:
            raise failure(answered(error))
        return [_as_told(each) for each in offsets]

    def watermarks(self, key: tuple[str, int], timeout_s: float) -> tuple[int, int]:
        """Return the first offset and the end of a partition. Raises KafkaException."""
        low = self._listed([(key, EARLIEST)], timeout_s)[0]
        high = self._listed([(key, LATEST)], timeout_s)[0]
        for code, _ in (low, high):
            if code:
                raise failure(code)
        return low[1], high[1]

    def for_times(self, partitions: Sequence[Any], timeout_s: float) -> list[Any]:
        """Return the first offset at or after each time, which the partition has in place of its offset; OFFSET_END for none."""
        asked = [((each.topic, each.partition), each.offset) for each in partitions]
        listed = self._listed(asked, timeout_s)
        return [
            Told.of(*key, ck.OFFSET_END if offset < 0 and not code else offset, code)
            for (key, _), (code, offset) in zip(asked, listed, strict=True)
        ]

    def _listed(self, asked: Sequence[tuple[tuple[str, int], int]], timeout_s: float) -> list[tuple[int, int]]:
        found: dict[int, tuple[int, int]] = {}
        link = self._link

        def ask(at: int) -> None:
            key, time = asked[at]

            def after(error: ErrorCode | None, answer: Any) -> None:
                if error is ErrorCode.NONE:
                    found[at] = (0, answer.offset)
                elif error in (None, ErrorCode.NOT_LEADER_OR_FOLLOWER):
                    link.later(_AGAIN_MS, lambda: ask(at), "offsets again")
                else:
                    found[at] = (_local(link, key, answered(error)), -1)

            committed_only = self._committed_only and time == LATEST
            link.ask(list_offset, _place(link, key), ListOffset(key, time, committed_only), after)

        for at in range(len(asked)):
            ask(at)
        if not link.world.wait(lambda: len(found) == len(asked), limit_ms(timeout_s)):
            raise failure(ck.KafkaError._TIMED_OUT)
        return [found[at] for at in range(len(asked))]


def _place(link: Link, key: tuple[str, int]) -> int:
    """Return the broker to ask about a partition; any broker knows that one does not exist."""
    known = link.cluster.topics.get(*key)
    return link.cluster.any_broker() if known is None else known.leader


def _local(link: Link, key: tuple[str, int], code: int) -> int:
    """Return the code with which librdkafka, which knows the metadata, answers for a partition that does not exist."""
    if code != int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return code
    known: int = ck.KafkaError._UNKNOWN_PARTITION if link.cluster.topics.of(key[0]) else ck.KafkaError._UNKNOWN_TOPIC
    return known


def _as_told(each: Any) -> Told:
    if each.committed is None:
        return Told.of(each.topic, each.partition, ck.OFFSET_INVALID)
    return Told.of(each.topic, each.partition, each.committed.offset, 0, each.committed.metadata or None)
