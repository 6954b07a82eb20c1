"""A child process that runs the random graph of a seed until it has read everything; killed with -9 by the test. It says what it stores."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from streamactors import ActorSystem
from tests.kafka._random_pipelines import place_of
from tests.kafka.test_killed_graphs import Trial


def main(bootstrap: str, seed: str, way: str, group: str, count: str) -> None:
    trial = Trial(bootstrap, ["first", "second"], int(count), int(seed), way)
    trial.group = group
    trial.properties = {
        "session.timeout.ms": 6_000,
        "group.instance.id": "only",
    }  # the next one takes its place at once
    pause = threading.Event()

    def store(sink: str, element: tuple[Any, ...]) -> tuple[Any, ...]:
        pause.wait(0.001)
        for origin in element:
            topic, partition, offset = place_of(origin)
            os.write(1, f"{sink} {topic} {partition} {offset}\n".encode())
        return element

    trial.seen.store = store  # type: ignore[method-assign]
    with ActorSystem("killed") as system:
        control, done = trial.graph(None).run(system)
        done.result(120)
        for each in control if isinstance(control, tuple) else (control,):
            each.is_shutdown.result(60)
    os.write(1, b"end\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
