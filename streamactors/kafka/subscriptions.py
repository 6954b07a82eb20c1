"""What a consumer reads: topics or a pattern (with a group), or single partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol, Self

from streamactors.errors import BuildError

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionOffset(NamedTuple):
    """The place of one record."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


class RestrictedConsumer(Protocol):
    """The consumer as a PartitionAssignmentHandler may use it, while it is called. Every look-up waits for the broker's answer."""

    def assignment(self) -> set[TopicPartition]:
        """Return all partitions that are assigned now."""

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offsets that exist."""

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets after the last records."""

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition at or after a time in ms since 1970; -1 where there is none."""

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the group's committed offsets; a partition without one is left out."""

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record that the stream gets; None before the first."""

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of assigned partitions and wait. Raises CommitFailed."""

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Begin to read a partition that has just been assigned at this offset. Raises KafkaError outside of `on_assigned`."""


class PartitionAssignmentHandler:
    """What happens when partitions are assigned and revoked; override what you need and give it to `with_assignment_handler`.

    The methods run on the consumer's thread, inside its poll: while one runs, nothing is read, and the group waits for this member.
    An exception fails the stream. `consumer` is usable until the method returns."""

    def on_assigned(self, partitions: set[TopicPartition], consumer: RestrictedConsumer) -> None:
        """These partitions were assigned; nothing of them has been delivered yet."""

    def on_revoked(self, partitions: set[TopicPartition], consumer: RestrictedConsumer) -> None:
        """These partitions go to another member. Their processed records are committed already."""

    def on_lost(self, partitions: set[TopicPartition], consumer: RestrictedConsumer) -> None:
        """These partitions belong to another member already, because this one did not poll in time. Nothing can be committed."""

    def on_stop(self, partitions: set[TopicPartition], consumer: RestrictedConsumer) -> None:
        """The source ends, and these partitions were assigned until now. Their processed records are committed already."""


@dataclass(frozen=True)
class Subscription:
    """Base of the two kinds below; made by `Subscriptions`."""

    @property
    def several_topics(self) -> bool:
        """True if more than one topic may be read."""
        raise NotImplementedError


@dataclass(frozen=True)
class AutoSubscription(Subscription):
    """Partitions are assigned by the group. `topics` as given; with `pattern` one regular expression, matched from the beginning."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    handler: PartitionAssignmentHandler | None = field(default=None, compare=False)
    start_ms: int | None = None
    """Where a partition without a committed offset begins: at the first record of this time or later, in ms since 1970."""

    def __post_init__(self) -> None:
        if not isinstance(self.topics, tuple):
            raise BuildError(f"AutoSubscription: topics is {self.topics!r}; use Subscriptions.topics(…)")

    def with_assignment_handler(self, handler: PartitionAssignmentHandler) -> Self:
        """Return this subscription with a handler that is called when partitions are assigned, revoked, lost, and at the end."""
        if not isinstance(handler, PartitionAssignmentHandler):
            raise BuildError(
                f"with_assignment_handler expects a PartitionAssignmentHandler, got {type(handler).__name__}; derive a class from it"
            )
        return replace(self, handler=handler)

    def starting_at(self, time: datetime | int) -> Self:
        """Return this subscription with a time at which the group starts: a datetime with a time zone, or ms since 1970.

        A partition without a committed offset begins at its first record with this timestamp or a later one, or at its end if there is none. A
        partition whose group has committed continues there. It counts instead of an `auto_offset_reset` of "earliest" or "latest"; with "error" a
        partition without a committed offset fails the stream all the same. Raises BuildError for another time."""
        return replace(self, start_ms=moment_ms("starting_at", time))

    @property
    def several_topics(self) -> bool:
        return self.pattern is not None or len(self.topics) > 1

    @property
    def names(self) -> list[str]:
        """What to subscribe to, in librdkafka's form (a leading ^ makes a pattern)."""
        return list(self.topics) if self.pattern is None else [f"^{self.pattern.removeprefix('^')}"]

    def __str__(self) -> str:
        named = ", ".join(self.topics) if self.pattern is None else f"topics like {self.pattern}"
        if self.start_ms is None:
            return named
        return f"{named} from {datetime.fromtimestamp(self.start_ms / 1_000, UTC).isoformat(' ', 'milliseconds')}"


@dataclass(frozen=True)
class ManualSubscription(Subscription):
    """Single partitions: from their offset, from the first record at a time (ms since 1970), or from the committed offset."""

    partitions: tuple[TopicPartition, ...]
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    times_ms: Mapping[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.partitions, tuple):
            raise BuildError(f"ManualSubscription: partitions is {self.partitions!r}; use Subscriptions.assignment(…)")

    @property
    def several_topics(self) -> bool:
        return len({key.topic for key in self.partitions}) > 1

    def __str__(self) -> str:
        return ", ".join(map(str, self.partitions))


class Subscriptions:
    """Ways to say what a consumer reads."""

    @staticmethod
    def topics(*topics: str) -> AutoSubscription:
        """Read these topics, as a member of the settings' group."""
        flat = list(_flattened(topics))
        if not flat or not all(isinstance(topic, str) and topic for topic in flat):
            raise BuildError(f"Subscriptions.topics expects names of topics, got {topics!r}")
        for topic in flat:
            if topic.startswith("^"):
                raise BuildError(
                    f"Subscriptions.topics: {topic!r} is a pattern; give Subscriptions.topic_pattern({topic!r})"
                )
            _checked_name("Subscriptions.topics", topic)
        return AutoSubscription(tuple(dict.fromkeys(flat)))

    @staticmethod
    def topic_pattern(pattern: str) -> AutoSubscription:
        """Read every topic whose name matches the regular expression, those created later too."""
        if not isinstance(pattern, str) or not pattern:
            raise BuildError(f"Subscriptions.topic_pattern expects a regular expression, got {pattern!r}")
        try:
            re.compile(pattern)
        except re.error as error:
            raise BuildError(f"Subscriptions.topic_pattern: {pattern!r} is not a regular expression: {error}") from None
        return AutoSubscription(pattern=pattern)

    @staticmethod
    def assignment(*partitions: tuple[str, int]) -> ManualSubscription:
        """Read these partitions, from the committed offsets if the settings have a group, else as auto_offset_reset says."""
        return ManualSubscription(_some("assignment", (checked_partition(p) for p in _flattened_pairs(partitions))))

    @staticmethod
    def assignment_with_offset(offsets: Mapping[tuple[str, int], int]) -> ManualSubscription:
        """Read these partitions, each from its offset."""
        told = _numbers("assignment_with_offset", "the offset to start at", offsets)
        return ManualSubscription(_some("assignment_with_offset", told), offsets=told)

    @staticmethod
    def assignment_offsets_for_times(times_ms: Mapping[tuple[str, int], datetime | int]) -> ManualSubscription:
        """Read these partitions, each from the first record at or after a time: a datetime with a time zone, or ms since 1970."""
        name = "assignment_offsets_for_times"
        if isinstance(times_ms, Mapping):
            times_ms = {
                key: moment_ms(name, time) if isinstance(time, datetime) else time for key, time in times_ms.items()
            }
        told = _numbers(name, "the time to start at, in ms since 1970,", times_ms)
        return ManualSubscription(_some("assignment_offsets_for_times", told), times_ms=told)


def moment_ms(where: str, time: object) -> int:
    """Return a moment in ms since 1970. Raises BuildError for what is neither a datetime with a time zone nor a number of ms."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise BuildError(
                f"{where}: {time!r} has no time zone, so it is no moment; give one: datetime(…, tzinfo=UTC), or time.astimezone()"
            )
        ms = round(time.timestamp() * 1_000)
    elif isinstance(time, int) and not isinstance(time, bool):
        ms = time
    else:
        raise BuildError(f"{where} expects a datetime with a time zone, or ms since 1970, got {time!r}")
    if not 0 <= ms < 1 << 63:
        raise BuildError(f"{where}: {time!r} is before 1970 or does not fit in 64 bits of ms; Kafka has no such times")
    return ms


def _checked_name(where: str, topic: str) -> None:
    if not _NAME.fullmatch(topic):
        raise BuildError(
            f"{where}: {topic!r} is not the name of a topic: a name has letters, digits, . _ and -, at most 249 of them"
        )


def _flattened(values: Iterable[object]) -> Iterable[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Iterable):
            yield from _flattened(value)
        else:
            raise BuildError(f"a topic's name is a string, got {value!r}")


def _flattened_pairs(values: Iterable[object]) -> Iterable[object]:
    for value in values:
        if isinstance(value, (list, set, frozenset)) or (
            isinstance(value, tuple) and value and isinstance(value[0], tuple)
        ):
            yield from value
        else:
            yield value


def checked_partition(value: object) -> TopicPartition:
    """Return the partition that a pair (topic, number) names. Raises BuildError."""
    if (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[0], str)
        and type(value[1]) is int
        and value[1] >= 0
    ):
        _checked_name("a partition", value[0])
        return TopicPartition(value[0], value[1])
    raise BuildError(f"a partition is (topic, number), got {value!r}")


def _some(name: str, partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    found = tuple(partitions)
    if not found:
        raise BuildError(f"Subscriptions.{name} expects at least one partition: nothing would ever be read")
    return found


def _numbers(name: str, what: str, told: object) -> dict[TopicPartition, int]:
    if not isinstance(told, Mapping):
        raise BuildError(f"Subscriptions.{name} expects a mapping of (topic, number) to integers, got {told!r}")
    for partition, number in told.items():
        if type(number) is not int or number < 0:
            raise BuildError(f"{partition}: {what} must be an integer of at least 0, got {number!r}")
    return {checked_partition(partition): number for partition, number in told.items()}
