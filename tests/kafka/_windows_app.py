"""A child process that counts a topic in windows, transactionally, until it has read it all; killed by the tests at random.

It says "position N" each time it has taken as many rows as a poll gives at most, and "end" when everything is committed. With HOLD=N in its
environment it waits after the N-th line until it is killed."""

from __future__ import annotations

import faulthandler
import os
import sys
from itertools import count

from streamactors import ActorSystem
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.windows import BufferConfig, State, Suppressed, TimeWindows


def main(bootstrap: str, group: str, source: str, target: str, chunk: str, state: str = "") -> None:
    consumer = ConsumerSettings(
        bootstrap,
        group,
        "earliest",
        properties={"session.timeout.ms": 6_000, "group.instance.id": "only"},
        max_poll_records=int(chunk),
        state=State.on_disk(state, cache="16MB") if state else State.in_memory(),
    )
    producer = ProducerSettings(bootstrap, transactional_id=group, commit_interval_ms=30)

    hold, numbers, taken = int(os.environ.get("HOLD", "0")), count(1), 0

    def told(rows):
        nonlocal taken
        taken += len(rows)  # on a busy machine a chunk has the rows of several polls
        while taken >= int(chunk):
            taken -= int(chunk)
            print("position", rows[-1].context.offset, flush=True)
            if next(numbers) == hold:
                sys.stdin.read()
        return rows

    with ActorSystem("windows") as system:
        (
            Consumer.records(consumer, Subscriptions.topics(*source.split(",")), key="string", until="end")
            .map_chunks(told)
            .group_by_key()
            .windowed_by(TimeWindows.of_size(1_000).with_grace(500))
            .count(name="per-second")
            .suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
            .to_stream()
            .map(lambda row: ProducerRecord(target, b"%d" % row.value, f"{row.key}@{row.start}", row.context.partition))
            .run_with(Transactional.sink(producer), system)
            .result(120)
        )
    print("end", flush=True)


if __name__ == "__main__":
    faulthandler.enable()  # a process that does not end is aborted by the test, and says where its threads are
    main(*sys.argv[1:])
