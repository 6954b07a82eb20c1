"""The time of one task: stream time, wall clock, and what is due.

Owner: the task. A task of Kafka Streams ends at repartition topics. So the steps of a topology that are connected without such a topic have
one TaskTime, and rows downstream of a repartition topic do not move the time before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Final, Protocol

from streamactors.windows.processors.punctuation import Punctuation

NO_TIME: Final = -1


class HasTimers(Protocol):
    """A processor with timers."""

    def start(self) -> None:
        """Call `init`."""

    def call_timers(self) -> None:
        """Call the timers that are due."""

    def close(self) -> None:
        """The task has ended."""


class TaskTime:
    """`stream_ms`: the largest timestamp of any row of the task's topics, also of dropped rows. `now_ms()`: the wall clock.

    `in_row`: a row is being processed. `kafka`: schedules that are due at the same time are called in Kafka Streams' order."""

    def __init__(self, now_ms: Callable[[], int], *, kafka: bool = False) -> None:
        self.now_ms = now_ms
        self.stream_ms = NO_TIME
        self.by_stream = Punctuation(kafka=kafka)
        self.by_wall = Punctuation(kafka=kafka)
        self.in_row = False
        self.processors: list[HasTimers] = []

    def restore(self, state: Mapping[str, Any]) -> None:
        """Begin with the stream time that the metadata of a store keeps, if it is later. Without it a restart would read expired entries again,
        and call timers late."""
        self.stream_ms = max(self.stream_ms, state.get("stream_time", NO_TIME))  # older changelogs have none

    def start(self) -> None:
        """The state is restored: start the processors, in the order in which they were built."""
        for processor in self.processors:
            processor.start()

    def after_row(self) -> None:
        """A row has passed through the task: call timers, then what is scheduled by stream time."""
        for processor in self.processors:
            processor.call_timers()
        if self.stream_ms >= 0:
            self.by_stream.run(self.stream_ms)

    def close(self) -> None:
        """The task has ended."""
        with ExitStack() as closing:  # the error of one keeps no other one open
            for processor in reversed(self.processors):
                closing.callback(processor.close)
