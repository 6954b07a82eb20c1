"""Where a source begins whose positions a sink of the run owns (Spark's checkpoint): looked up and checked without joining the group.

The group serves two purposes only: its committed offsets are where a first run begins, and the owner's progress is committed to it, so that
lag tools see it. It must have no members, because these commits would overwrite theirs."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping

from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.errors import ConsumerFailed, GroupInUse, RecordsGone, TopicNotFound
from streamactors.kafka.reading.assignment.start_time import starts_by_time
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import AutoSubscription, ManualSubscription, Subscription, TopicPartition

_log = logging.getLogger("streamactors.kafka")

Offsets = dict[TopicPartition, int]
Begin = Callable[[tuple[Offsets, Offsets | None, bool]], None]


class StartPositions:
    """See streamactors.engine.marks.ownership.SourceHandle. `begin((starts, until, skip lost))` posts to the source's island."""

    def __init__(self, settings: ConsumerSettings, subscription: Subscription, bounded: bool, begin: Begin) -> None:
        self._settings = settings
        self._subscription = subscription
        self.bounded = bounded
        self._begin = begin

    @property
    def label(self) -> str:
        """What is read, in words that do not change between runs."""
        subscription = self._subscription
        if isinstance(subscription, AutoSubscription):
            if subscription.pattern is not None:
                return f"topics like {subscription.pattern}"
            return f"topic {', '.join(sorted(subscription.topics))}"
        assert isinstance(subscription, ManualSubscription)
        return f"partitions {', '.join(sorted(map(str, subscription.partitions)))}"

    def identity(self) -> dict[str, str | None]:
        """Return the cluster id and the id of each topic that there is; None for an id that the brokers do not report.

        Raises NoBroker."""
        with Admin(self._settings) as admin:
            wanted = wanted_topics(self._subscription, [topic.name for topic in admin.topics()])
            ids = admin.topic_ids(wanted)
            return {"cluster id": admin.cluster_id(), **{f"id of topic {name}": ids[name] for name in sorted(ids)}}

    def initial(self, *, skip_lost: bool = False) -> dict[str, int]:
        """Return the group's committed offsets; without one, the offset that the subscription or auto_offset_reset names.

        A committed offset whose record retention has deleted raises RecordsGone; with `skip_lost` the partition begins at its first record,
        and a warning names the offsets. Raises GroupInUse."""
        client = self._connect()
        try:
            self.check_group()
            keys = partitions_of(self._subscription, client)
            limits = client.watermarks(keys)
            told = self._told(client)
            told = starts_by_time(client, self._settings, self._subscription, keys) | told
            committed = client.committed(keys) if self._settings.group_id else {}
        finally:
            client.close()
        known = {key: told.get(key, committed.get(key)) for key in keys}
        gone = {key: place for key, place in known.items() if place is not None and place < limits[key][0]}
        _report_gone(
            "the offsets to begin at" if told else f"what group {self._settings.group_id} has committed",
            gone,
            limits,
            skip_lost=skip_lost,
        )
        return {
            str(key): limits[key][0] if key in gone else self._first(key, place, *limits[key])
            for key, place in known.items()
        }

    def begin(self, start: Mapping[str, int], until: Mapping[str, int] | None, *, skip_lost: bool = False) -> None:
        """Begin at `start`. Raises RecordsGone naming the offsets, unless told to skip them; GroupInUse."""
        starts = self.existing(start, skip_lost=skip_lost)
        ends = None if until is None else {_key(name): place for name, place in until.items()}
        self._begin((starts, ends, skip_lost))

    def existing(self, start: Mapping[str, int], *, skip_lost: bool) -> Offsets:
        """Return where each partition begins, given the positions of a checkpoint. With `skip_lost` a position whose record retention has deleted
        becomes the first one that exists, and a warning names the offsets. Raises RecordsGone naming the offsets; GroupInUse."""
        client = self._connect()
        try:
            self.check_group()
            keys = partitions_of(self._subscription, client)
            limits = client.watermarks(keys)
        finally:
            client.close()
        asked = {_key(name): place for name, place in start.items()}
        missing = sorted(str(key) for key in asked if key not in limits)
        if missing:
            raise RecordsGone(
                f"the checkpoint continues at {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not there any more; "
                "was the topic deleted?"
            )
        starts = {key: asked.get(key, low) for key, (low, _) in limits.items()}
        beyond = {key: (place, limits[key][1]) for key, place in starts.items() if place > limits[key][1]}
        if beyond:
            named = ", ".join(f"{key}: {place}, its end is {end}" for key, (place, end) in sorted(beyond.items()))
            raise RecordsGone(
                f"the checkpoint continues beyond the end of {named}; was the topic deleted and created again?"
            )
        gone = {key: place for key, place in starts.items() if place < limits[key][0]}
        _report_gone("the checkpoint", gone, limits, skip_lost=skip_lost)
        return {**starts, **{key: limits[key][0] for key in gone}}

    def ends(self) -> dict[str, int]:
        """Return the positions after the last records."""
        client = self._connect()
        try:
            found = client.watermarks(partitions_of(self._subscription, client))
            return {str(key): high for key, (_, high) in found.items()}
        finally:
            client.close()

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _connect(self) -> StreamConsumer:
        client = StreamConsumer(self._settings)
        client.preflight(())
        return client

    def _told(self, client: StreamConsumer) -> Offsets:
        subscription = self._subscription
        if not isinstance(subscription, ManualSubscription):
            return {}
        told = dict(subscription.offsets)
        if subscription.times_ms:
            told.update({key: place for key, place in client.offsets_at(subscription.times_ms).items() if place >= 0})
        return told

    def _first(self, key: TopicPartition, known: int | None, low: int, high: int) -> int:
        if known is not None and low <= known <= high:
            return known
        reset = self._settings.auto_offset_reset
        if reset == "error":
            raise ConsumerFailed(
                f"{key}: no offset to begin at, and auto_offset_reset is 'error'; say 'earliest' or 'latest', or commit one"
            )
        return low if reset == "earliest" else high

    def check_group(self) -> None:
        """Raise GroupInUse if the group has members."""
        group = self._settings.group_id
        if not group:
            return
        members = [f"{member.client_id} at {member.host}" for member in Admin(self._settings).members(group)]
        if members:
            raise GroupInUse(
                f"group {group} has {len(members)} live {'member' if len(members) == 1 else 'members'} ({', '.join(members[:3])}); "
                "a run that ends in Spark needs a group of its own: settings.with_group_id('…')"
            )


def partitions_of(subscription: Subscription, client: StreamConsumer) -> list[TopicPartition]:
    """Return the partitions that a subscription reads now. Raises TopicNotFound."""
    if isinstance(subscription, ManualSubscription):
        client.preflight({key.topic for key in subscription.partitions})
        return sorted(subscription.partitions)
    assert isinstance(subscription, AutoSubscription)
    topics = client.topics()
    if subscription.pattern is None:
        client.preflight(subscription.topics)
    wanted = wanted_topics(subscription, topics)
    empty = [name for name in wanted if not topics.get(name)]
    if empty:
        raise TopicNotFound(f"topic {empty[0]} has no partitions yet")
    return sorted(TopicPartition(name, number) for name in wanted for number in range(topics[name]))


def wanted_topics(subscription: Subscription, known: Iterable[str]) -> list[str]:
    """Return the known topics that a subscription reads."""
    if isinstance(subscription, ManualSubscription):
        names = {key.topic for key in subscription.partitions}
        return [name for name in known if name in names]
    assert isinstance(subscription, AutoSubscription)
    if subscription.pattern is None:
        return [name for name in known if name in subscription.topics]
    pattern = re.compile(subscription.pattern)
    return [name for name in known if pattern.match(name) and not name.startswith("__")]


def _key(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def reading_settings(settings: ConsumerSettings, skip_lost: bool) -> ConsumerSettings:
    """Return the settings to read with: a position that is gone is an error, unless lost records are to be skipped."""
    return settings.with_auto_offset_reset("earliest" if skip_lost else "error")


def _report_gone(
    what: str, gone: Mapping[TopicPartition, int], limits: Mapping[TopicPartition, tuple[int, int]], *, skip_lost: bool
) -> None:
    """Raise RecordsGone naming the records before `limits` that retention has deleted; with `skip_lost` log one warning."""
    if not gone:
        return
    named = ", ".join(f"{key} {place} to {limits[key][0] - 1}" for key, place in sorted(gone.items()))
    said = f"retention has passed {what}: {named} {'is' if len(gone) == 1 else 'are'} not there any more"
    if not skip_lost:
        raise RecordsGone(f"{said}; fail_on_data_loss=False continues after them")
    _log.warning("%s; the read continues after them", said)
