"""librdkafka's statistics of a consumer, with the fields that the connector reads.

Owner: the consumer. Every partition of a topic that it reads is named, as in librdkafka; `unknown` is true for one that was deleted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamactors.simulation.client.link import Link
    from streamactors.simulation.client.reading.reading import Reading
    from streamactors.simulation.cluster.cluster import SimulatedCluster

_SEPARATORS = (",", ":")


def statistics_of(cluster: SimulatedCluster, link: Link, readings: Mapping[tuple[str, int], Reading]) -> str:
    """Return the JSON."""
    waiting = sum(reading.queued for reading in readings.values())
    topics: dict[str, Any] = {}
    for topic in sorted({topic for topic, _ in readings}):
        known = len(cluster.topics.of(topic))
        numbers = sorted({*range(known), *(index for name, index in readings if name == topic)})
        of_topic = {}
        for index in numbers:
            reading = readings.get((topic, index))
            of_topic[str(index)] = {
                "partition": index,
                "desired": reading is not None,
                "unknown": index >= known,
                "fetchq_cnt": waiting,
                "rxmsgs": 0 if reading is None else reading.received,
                "rxbytes": 0 if reading is None else reading.bytes_received,
            }
        topics[topic] = {"topic": topic, "partitions": of_topic}
    state = "UP" if link.connected and cluster.any_broker() >= 0 else "DOWN"
    brokers = {"simulated:9092/0": {"name": "simulated:9092/0", "state": state}}
    return json.dumps({"brokers": brokers, "topics": topics}, separators=_SEPARATORS)
