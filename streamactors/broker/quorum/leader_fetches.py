"""The fetches of other replicas at the leader of the metadata log. One that finds nothing new is answered when something is new, or after the time that
it may wait.

Owner: `Quorum`, on its thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.errors import StorageError, StorageShortage
from streamactors.broker.quorum.raft.raft_messages import Answer, Fetch, FetchAnswer
from streamactors.broker.quorum.raft.roles import Role
from streamactors.broker.quorum.replica_log import VotersLog

if TYPE_CHECKING:
    from streamactors.actors.dispatching.real_time import Timers
    from streamactors.broker.quorum.quorum import Quorum

MOST_WAIT_MS: Final = 30_000.0
READ_AGAIN_MS: Final = 100.0
"""How long a fetch waits whose records cannot be read because no descriptor is left."""

Reply = Callable[[Answer], object]


class _Waiting(NamedTuple):
    """A fetch that found nothing new."""

    fetch: Fetch
    reply: Reply
    high_watermark: int
    timer: Timer


class LeaderFetches:
    """Answers fetches. `take` gets each with the judgement of the state machine."""

    def __init__(self, leader: Quorum, log: VotersLog, timers: Timers, now_ms: Callable[[], float]) -> None:
        self._leader = leader
        self._log = log
        self._timers = timers
        self._now_ms = now_ms
        self._waiting: list[_Waiting] = []
        self._stopped = False

    def take(self, fetch: Fetch, answer: FetchAnswer, known: int, reply: Reply) -> None:
        """Answer a fetch now or later. `known`: the high watermark that the replica knows."""
        if not _agrees(answer) or fetch.offset < self._log.end_offset or fetch.max_wait_ms <= 0:
            self._serve(fetch, reply)
            return
        timer = self._timers.call_later(
            min(fetch.max_wait_ms, MOST_WAIT_MS), partial(self._answer, lambda each: each.fetch is fetch)
        )
        self._waiting.append(_Waiting(fetch, reply, known, timer))
        self.answer_news()

    def answer_news(self) -> None:
        """Answer the waiting fetches for which there is news."""
        self._answer(self._is_news)

    def stop(self) -> None:
        """Drop the waiting fetches with their connections."""
        self._stopped = True
        for each in self._waiting:
            each.timer.cancel()
        self._waiting.clear()

    def _answer(self, which: Callable[[_Waiting], bool]) -> None:
        due = [each for each in self._waiting if which(each)]
        if due:
            self._waiting = [each for each in self._waiting if each not in due]
        for each in due:
            each.timer.cancel()
            self._serve(each.fetch, each.reply)

    def _is_news(self, waiting: _Waiting) -> bool:
        fetch, state = waiting.fetch, self._leader.state
        if state.role is not Role.LEADER or fetch.epoch != state.epoch:
            return True
        return fetch.offset < self._log.end_offset or self._leader.known_high_watermark > waiting.high_watermark

    def _serve(self, fetch: Fetch, reply: Reply, until_ms: float | None = None) -> None:
        """Answer a fetch, which is judged again: much can have happened while it waited.

        While its records cannot be read because no descriptor is left, it is tried again for as long as it may wait. Then it has no answer, and the other
        node asks again."""
        if self._stopped:
            return
        answer, _ = self._leader.state.fetch(fetch, self._now_ms())
        if not answer.error:
            answer = replace(answer, high_watermark=self._leader.known_high_watermark)
        if _agrees(answer) and fetch.offset < self._log.end_offset:
            try:
                answer = replace(answer, batches=self._log.batches(fetch.offset))
            except StorageShortage:
                now_ms = self._now_ms()
                until_ms = now_ms + min(fetch.max_wait_ms, MOST_WAIT_MS) if until_ms is None else until_ms
                if now_ms < until_ms:
                    self._timers.call_later(READ_AGAIN_MS, partial(self._serve, fetch, reply, until_ms))
                return
            except StorageError as error:
                self._leader.halt(error)
                return
        reply(answer)


def _agrees(answer: FetchAnswer) -> bool:
    """Whether the log of the replica that asks is a beginning of the leader's."""
    return not answer.error and answer.diverging is None and answer.snapshot is None
