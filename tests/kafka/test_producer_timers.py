"""The timers of a producer's thread, while a record waits for its acknowledgement."""

from __future__ import annotations

import threading

from streamactors.kafka.client.producer import StreamProducer


class Unanswered:
    """A client with a record that nobody acknowledges; its first poll sets a timer of the producer."""

    def __init__(self, producer):
        self._producer = producer
        self.polls, self.polls_when_due, self.due = 0, 0, threading.Event()

    def __len__(self):
        return not self.due.is_set()

    def poll(self, _):
        self.polls += 1
        if self.polls == 1:
            self._producer.later(0, self._on_due)
        return 0

    def _on_due(self):
        self.polls_when_due = self.polls
        self.due.set()

    def purge(self, **_):
        pass


def test_a_timer_does_not_wait_for_a_record_that_nobody_acknowledges(producer_settings):
    # The thread polled a thousand times, for 0.1 s each, before it looked at its timers: the next commit of a transaction was 100 s late.
    producer = StreamProducer(producer_settings)
    client = producer._client = Unanswered(producer)
    producer.wake()
    assert client.due.wait(30)
    assert client.polls_when_due <= 2
    producer.close(drop=True).result(30)
