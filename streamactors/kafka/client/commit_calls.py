"""The commits of one consumer: librdkafka's requests, and the judgement of its answers.

A synchronous commit would hold the consumer until librdkafka has found a coordinator, which may take session.timeout.ms; no limit can be given.
Owner: StreamConsumer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from streamactors.kafka.client.connection import NO_TOPIC, ck
from streamactors.kafka.client.diagnosis.rights import DENIED
from streamactors.kafka.client.error_codes import NOT_A_MEMBER, RETRIABLE_COMMIT
from streamactors.kafka.errors import CommitFailed
from streamactors.kafka.subscriptions import TopicPartition

Offsets = Mapping[TopicPartition, int]
Heard = Callable[["bool | CommitFailed"], None]
"""Called with the outcome of a commit: True; False to try again later; CommitFailed for an error that a retry does not repair."""


class CommitCalls:
    """Commits offsets through librdkafka and sorts its errors. `denied(code, topic)` returns the sentence for a missing right."""

    def __init__(
        self, group: str | None, users: Callable[[Any, Any], None] | None, denied: Callable[[int, str], str]
    ) -> None:
        self._group = group
        self._users = users  # the user's own callback for commits
        self._denied = denied
        self._pending: list[tuple[dict[TopicPartition, int], Heard]] = []  # in the order of their requests
        self.of_member = False
        """True for a consumer that has joined its group: when the group removes it, another try finds nothing to commit."""
        self.of_pattern = False
        """True for a consumer of a pattern's topics: offsets of a topic that is gone are dropped with it."""

    def begin(self, client: Any, offsets: Offsets, texts: Mapping[TopicPartition, str], heard: Heard) -> None:
        """Send a request to commit; `heard` is called inside a poll."""
        pending = (dict(offsets), heard)
        self._pending.append(pending)
        told = [ck.TopicPartition(*key, offset, texts.get(key, "")) for key, offset in offsets.items()]
        try:
            client.commit(offsets=told, asynchronous=True)
        except ck.KafkaException as error:
            self._pending.remove(pending)
            heard(self._judged(error.args[0], offsets))

    def on_answer(self, error: Any, answers: Any) -> None:
        """librdkafka's callback for a commit."""
        if self._users is not None:
            self._users(error, answers)
        told = {TopicPartition(each.topic, each.partition): each.offset for each in answers or ()}
        pending = next((each for each in self._pending if each[0] == told), None)
        if pending is not None:
            self._pending.remove(pending)
            offsets, heard = pending
            heard(
                self._judged_each(answers)
                if error is None or self._names_what_is_gone(answers)
                else self._judged(error, offsets)
            )

    def wait(self, client: Any, offsets: Offsets) -> bool:
        """Commit and wait for the answer. Raises CommitFailed."""
        told = [ck.TopicPartition(*key, offset) for key, offset in offsets.items()]
        try:
            outcome = self._judged_each(client.commit(offsets=told, asynchronous=False))
        except ck.KafkaException as error:
            gone = self.of_pattern and error.args[0].code() in NO_TOPIC
            outcome = (
                False if gone else self._judged(error.args[0], offsets)
            )  # without it, when the partition is revoked
        if isinstance(outcome, CommitFailed):
            raise outcome
        return outcome

    def _names_what_is_gone(self, answers: Any) -> bool:
        """Return whether the answers name topics of a pattern that are gone: librdkafka makes the last error that of the whole request."""
        return any(map(self._is_gone, answers))

    def _is_gone(self, answer: Any) -> bool:
        return self.of_pattern and answer.error is not None and answer.error.code() in NO_TOPIC

    def _judged_each(self, answers: Any) -> bool | CommitFailed:
        for answer in answers:
            if answer.error is not None and not self._is_gone(answer):
                return self._judged(answer.error, {TopicPartition(answer.topic, answer.partition): answer.offset})
        return True

    def _judged(self, error: Any, offsets: Offsets) -> bool | CommitFailed:
        code = error.code()
        if code in RETRIABLE_COMMIT or error.retriable() or (self.of_member and code in NOT_A_MEMBER):
            return False
        named = ", ".join(f"{key}@{offset}" for key, offset in list(offsets.items())[:5])
        why = self._denied(code, next(iter(offsets)).topic) if code in DENIED else f"{error.str()} ({error.name()})"
        return CommitFailed(f"group {self._group}: {named} not committed: {why}")
