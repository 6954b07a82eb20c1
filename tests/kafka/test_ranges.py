"""RangeReader: the records of a range, for as long as somebody wants them."""

from __future__ import annotations

import threading

import pytest

from streamactors.kafka.client.ranges import RangeReader
from streamactors.kafka.errors import ConsumerFailed
from streamactors.kafka.subscriptions import TopicPartition


def test_a_reader_that_is_stopped_gives_up_a_range_whose_records_do_not_come(settings, topic_with):
    # The thread of a page that was closed waited for a minute, and called its broker, which had ended
    key, over = TopicPartition(topic_with("ranges", [b"a", b"b"]), 0), threading.Event()
    reader = RangeReader(settings, stopped=over.is_set)
    chunks = reader.read(key, 0, 10)
    found = 0
    while found < 2:
        found += len(next(chunks))
    over.set()
    with pytest.raises(ConsumerFailed, match="ranges-0: reading was stopped at 2, and the range ends at 10"):
        next(chunks)
    reader.close()
