"""The reports of sent records, as the island sees them that waits for them."""

from __future__ import annotations

from streamactors.kafka.writing.deliveries import SentRecords
from streamactors.kafka.writing.producer_stage import ALL


class Reported:
    """A message of librdkafka. `looked_at` is called when its report reads it: there the island may take its turn, too."""

    def __init__(self, looked_at=lambda: None):
        self._looked_at = looked_at

    def topic(self):
        self._looked_at()
        return "orders"

    def value(self):
        return b"v"

    def key(self):
        return None

    def partition(self):
        return 0


def test_a_record_that_was_not_delivered_is_heard_of_when_its_report_is_served_beside_the_island():
    # The producer's thread counts the last report -> the island takes the run: all are reported, and nothing has failed -> the mark behind
    # the record passes, and its offset is committed -> the thread notes the failure, which nobody looks at any more.
    sent = SentRecords()
    sent.sent(2)
    done = []

    def take():
        _, n, failures = sent.take(ALL)
        if n:
            done.append((n, [error for _, _, error in failures]))

    sent.report(None, Reported())
    sent.report("timed out", Reported(take))
    if not sent.over:
        take()
    assert done == [(2, ["timed out"])]
