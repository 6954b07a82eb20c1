"""StreamConsumer: what librdkafka's statistics say about records that were fetched in vain."""

import json

from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.settings import ConsumerSettings


def test_what_waits_in_the_queue_of_all_partitions_is_counted_once():
    """Every partition tells the length of the consumer's one queue. Added up, what waits hides what was thrown away."""
    partition = {"rxbytes": 5_000, "fetchq_cnt": 20, "unknown": False, "desired": True}
    told = {str(i): {**partition, "partition": i, "rxmsgs": 50} for i in range(4)}
    client = StreamConsumer(ConsumerSettings("localhost:1", "nobody"))
    try:
        assert client.received().thrown_away_bytes == 0
        client._on_statistics(json.dumps({"topics": {"t": {"partitions": told}}}))
        received = client.received()
        assert (received.records, received.waiting) == (200, 20)
        assert received.thrown_away_bytes == 180 * 100
    finally:
        client.close()
