"""The partitions of a source whose positions somebody else owns: looked up, checked and assigned without the group.

The group is used for two things only: where to begin when nothing was ever read, and to be told how far the owner has come, so that lag
tools see it. So it must have no members, whose partitions these commits would be."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from streamactors.kafka.client import live_members
from streamactors.kafka.client_consumer import StreamConsumer
from streamactors.kafka.errors import ConsumerFailed, GroupInUse, RecordsGone, TopicNotFound
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import AutoSubscription, ManualSubscription, Subscription, TopicPartition

Offsets = dict[TopicPartition, int]
Begin = Callable[[tuple[Offsets, Offsets | None, bool]], None]


class OwnedPartitions:
    """See streamactors.engine.ownership.OwnedSource. `begin((starts, until, skip lost))` posts to the source's island."""

    def __init__(self, settings: ConsumerSettings, subscription: Subscription, bounded: bool, begin: Begin) -> None:
        self._settings = settings
        self._subscription = subscription
        self.bounded = bounded
        self._begin = begin

    @property
    def label(self) -> str:
        """What is read."""
        subscription = self._subscription
        if isinstance(subscription, AutoSubscription):
            if subscription.pattern is not None:
                return f"topics like {subscription.pattern}"
            return f"topic {', '.join(sorted(subscription.topics))}"
        assert isinstance(subscription, ManualSubscription)
        return f"partitions {', '.join(sorted(map(str, subscription.partitions)))}"

    def initial(self) -> dict[str, int]:
        """Return the group's committed offsets; where there is none, what the subscription or auto_offset_reset says.

        Raises GroupInUse."""
        client = self._connect()
        try:
            self._check_group()
            keys = partitions_of(self._subscription, client)
            limits = client.watermarks(keys)
            told = self._told(client)
            committed = client.committed(keys) if self._settings.group_id else {}
            return {str(key): self._first(key, told.get(key, committed.get(key)), *limits[key]) for key in keys}
        finally:
            client.close()

    def begin(self, start: Mapping[str, int], until: Mapping[str, int] | None, *, skip_lost: bool = False) -> None:
        """Begin at `start`. Raises RecordsGone naming the offsets, unless told to skip them; GroupInUse."""
        client = self._connect()
        try:
            self._check_group()
            keys = partitions_of(self._subscription, client)
            limits = client.watermarks(keys)
        finally:
            client.close()
        asked = {_key(name): place for name, place in start.items()}
        missing = sorted(str(key) for key in asked if key not in limits)
        if missing:
            raise RecordsGone(
                f"the checkpoint goes on at {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not there any more; "
                "was the topic deleted?"
            )
        starts = {key: asked.get(key, low) for key, (low, _) in limits.items()}
        gone = {key: (place, limits[key][0]) for key, place in starts.items() if place < limits[key][0]}
        beyond = {key: (place, limits[key][1]) for key, place in starts.items() if place > limits[key][1]}
        if beyond:
            named = ", ".join(f"{key}: {place}, its end is {end}" for key, (place, end) in sorted(beyond.items()))
            raise RecordsGone(
                f"the checkpoint goes on beyond the end of {named}; was the topic deleted and made again?"
            )
        if gone and not skip_lost:
            named = ", ".join(f"{key} {place} to {low - 1}" for key, (place, low) in sorted(gone.items()))
            raise RecordsGone(
                f"retention has passed the checkpoint: {named} {'is' if len(gone) == 1 else 'are'} not there any more; "
                "fail_on_data_loss=False goes on behind them"
            )
        ends = None if until is None else {_key(name): place for name, place in until.items()}
        for key, (_, low) in gone.items():
            starts[key] = low
        self._begin((starts, ends, skip_lost))

    def ends(self) -> dict[str, int]:
        """Return the positions behind the last records."""
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

    def _check_group(self) -> None:
        group = self._settings.group_id
        if not group:
            return
        members = live_members(self._settings.bootstrap_servers, group)
        if members:
            raise GroupInUse(
                f"group {group} has {len(members)} live {'member' if len(members) == 1 else 'members'} ({', '.join(members[:3])}); "
                "a run that ends in Spark needs a group of its own: settings.with_group_id('…')"
            )


def partitions_of(subscription: Subscription, client: StreamConsumer) -> list[TopicPartition]:
    """Return the partitions that are there now. Raises TopicNotFound."""
    if isinstance(subscription, ManualSubscription):
        client.preflight({key.topic for key in subscription.partitions})
        return sorted(subscription.partitions)
    assert isinstance(subscription, AutoSubscription)
    topics = client.topics()
    if subscription.pattern is not None:
        pattern = re.compile(subscription.pattern)
        wanted = [name for name in topics if pattern.match(name) and not name.startswith("__")]
    else:
        client.preflight(subscription.topics)
        wanted = list(subscription.topics)
    empty = [name for name in wanted if not topics.get(name)]
    if empty:
        raise TopicNotFound(f"topic {empty[0]} has no partitions yet")
    return sorted(TopicPartition(name, number) for name in wanted for number in range(topics[name]))


def _key(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def reading_settings(settings: ConsumerSettings, skip_lost: bool) -> ConsumerSettings:
    """Return the settings to read with: a position that is gone is an error, never silently another one."""
    return settings.with_auto_offset_reset("earliest" if skip_lost else "error")
