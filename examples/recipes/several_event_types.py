"""A topic with several types of events, which a field names. python examples/recipes/several_event_types.py"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from streamactors import Keep, RunnableGraph, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Serde,
    Subscriptions,
)
from streamactors.windows import Record


@dataclass
class Ordered:
    item: str
    pieces: int


@dataclass
class Cancelled:
    reason: str


TYPES: dict[str, Any] = {"ordered": Ordered, "cancelled": Cancelled}
NAMES = {kind: name for name, kind in TYPES.items()}


def to_bytes(event: Any) -> bytes:
    return json.dumps({"type": NAMES[type(event)], **asdict(event)}).encode()


def from_bytes(data: bytes) -> Any:
    fields = json.loads(data)
    kind = TYPES[fields.pop("type")]  # an unknown type is an unreadable record
    return kind(**fields)


EVENTS = Serde.of(to_bytes, from_bytes, name="events")


def graph(bootstrap: str) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="stock", auto_offset_reset="earliest")
    events = Consumer.records(
        settings,
        Subscriptions.topics("orders"),
        key="string",
        value=EVENTS,
        dead_letters="orders-dead",
        until="end",
    )

    def handle(event: Record) -> str:
        match event.value:
            case Ordered(item=item, pieces=pieces):
                return f"{event.key}: take {pieces} {item} from the shelf"
            case Cancelled(reason=reason):
                return f"{event.key}: put back, {reason}"
        raise TypeError(f"nothing handles {event.value!r}")

    return events.map(handle).to_mat(Sink.to_list(), Keep.both)


def main(cluster: Cluster) -> None:
    for topic in ("orders", "orders-dead"):
        cluster.create_topic(topic)
    events = [ProducerRecord("orders", event, "order-1") for event in (Ordered("tea", 2), Cancelled("too late"))]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value=EVENTS)
    Source.from_iterable(events).run_with(writer).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    print(*done.result(30), sep="\n")
    control.is_shutdown.result(30)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
