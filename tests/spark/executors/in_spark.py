"""Topics of rows, and windows over them, for tests of graphs on Spark's executors."""

from __future__ import annotations

import uuid
from typing import Any

from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Subscriptions,
)
from streamactors.windows import BufferConfig, Suppressed, TimeWindows

END_S = 200.0


HOURS = TimeWindows.of_size(100).with_grace(50)


def new_topic() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


def rows_of(seed: int, n: int = 200, start: int = 0) -> list[tuple[int, str, int, int]]:
    import random

    dice = random.Random(seed)
    return [
        (dice.randrange(2), dice.choice("abc"), i, max(0, i * 7 - dice.choice([0, 0, 10, 60, 300])))
        for i in range(start, start + n)
    ]


def records_of(cluster: Any, topic: str, *more: str, until: Any = "end", group: str = "g") -> Any:
    settings = ConsumerSettings(cluster.bootstrap_servers, group_id=f"{group}-{topic}", auto_offset_reset="earliest")
    found = Consumer.records(
        settings,
        Subscriptions.topics(topic, *more),
        key="string",
        value="json",
        timestamp=lambda record: record.value[1],
        until=until,
    )
    return found.map(lambda record: record.replace(value=record.value[0]))


CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())


def counted(records: Any, late: Any = None) -> Any:
    return records.group_by_key().windowed_by(HOURS, late=late).count().suppress(CLOSED).to_stream()
