"""How often a consumer tries the commits that wait for it, while the broker refuses them."""

from __future__ import annotations

from streamactors.actors.futures import StreamFuture
from streamactors.kafka.errors import CommitTimeout
from streamactors.kafka.reading.commits import CommitEnded, ConsumerCommits
from streamactors.kafka.reading.consumer_context import ConsumerContext
from streamactors.kafka.reading.consumer_state import ConsumerState
from streamactors.kafka.reading.messages import CommitNow, CommitReply, Commits
from streamactors.kafka.reading.offset_tracker import OffsetTracker
from streamactors.kafka.reading.pausing import Limits
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition

KEY = TopicPartition("t", 0)


class Refusing:
    """A client whose broker refuses commits until the test lets them pass."""

    refuses = True

    def commit(self, offsets, texts, heard):
        heard(not self.refuses)


class Consumer:
    """The commits of a consumer with something to commit. `turn` serves the messages to the actor and the timers."""

    def __init__(self):
        self._calls = []
        tracker = OffsetTracker()
        tracker.assigned([KEY], 1)
        tracker.delivered(KEY, 1, 5)
        tracker.done(KEY, 1, 5)
        self.client = Refusing()
        self.commits = ConsumerCommits(
            ConsumerContext(
                settings=ConsumerSettings("localhost:1", group_id="g"),
                commits=Commits.OFFSETS,
                source=None,
                tracker=tracker,
                state=ConsumerState(Limits(100, 10, 1_000, 0), 10),
                call_later=lambda ms, call: self._calls.append(call),
                now_ms=lambda: 0.0,
                tell=self.hear,
                until_end=False,
                apart=False,
                client=self.client,
            )
        )

    def hear(self, message):
        if isinstance(message, CommitEnded):
            self.commits.on_ended(message)
        else:
            self._calls.append(lambda: self.commits.on_answer(message))

    def turn(self):
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    def turns(self, n):
        for _ in range(2 * n):  # a timer sends a message
            self.turn()

    def commit(self, max_retries):
        reply = CommitReply(max_retries)
        self.commits.on_commit_now(CommitNow(reply))
        return reply


def test_each_commit_has_its_own_tries():
    # The tries of all commits that waited were one number: the first commit had used them up, and the later one failed at its first try.
    consumer = Consumer()
    first = consumer.commit(max_retries=3)
    consumer.turns(3)
    later = consumer.commit(max_retries=3)
    consumer.turns(2)
    assert "not committed in 4 tries" in str(first.exception(0))
    assert not later.done()
    consumer.client.refuses = False
    consumer.turns(1)
    assert later.exception(0) is None


def test_a_commit_without_a_number_of_tries_does_not_use_up_those_of_others():
    consumer = Consumer()
    patient: StreamFuture[None] = StreamFuture("patient")
    consumer.commits.on_commit_now(CommitNow(patient))
    consumer.turns(5)
    limited = consumer.commit(max_retries=1)
    consumer.turns(1)
    assert not limited.done()
    consumer.turns(1)
    assert isinstance(limited.exception(0), CommitTimeout)
    assert "in 2 tries" in str(limited.exception(0))
    assert not patient.done()
