"""The consumer of a stream: librdkafka's, in batches of runs, with errors in this package's terms.

Owner: the consumer actor; every call from its thread. `poll(n, t)` waits for the first record only (librdkafka's consume waits for all n
or the full timeout), then takes what lies ready."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from streamactors.kafka.client import CONNECT_TIMEOUT_MS, REQUEST_TIMEOUT_MS, ck, ck_admin
from streamactors.kafka.consumer_statistics import Received, received_of, unknown_partitions
from streamactors.kafka.errors import CommitFailed, ConsumerFailed, KafkaError, TopicNotFound
from streamactors.kafka.preflight import known_topics
from streamactors.kafka.received_runs import NOTHING, Batch, run_of, runs_of, wrapped
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition

_log = logging.getLogger("streamactors.kafka")

_PASSING = (
    ck.KafkaError._ALL_BROKERS_DOWN,
    ck.KafkaError._TRANSPORT,
    ck.KafkaError._TIMED_OUT,
    ck.KafkaError._RESOLVE,
    ck.KafkaError._MAX_POLL_EXCEEDED,  # the member has left; the poll that says so lets it join again
)
"""Told in a warning: librdkafka goes on by itself."""
_RETRIABLE_COMMIT = (
    ck.KafkaError.REBALANCE_IN_PROGRESS,
    ck.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    ck.KafkaError.COORDINATOR_NOT_AVAILABLE,
    ck.KafkaError.NOT_COORDINATOR,
    ck.KafkaError.REQUEST_TIMED_OUT,
    ck.KafkaError._TIMED_OUT,
    ck.KafkaError._TRANSPORT,
    ck.KafkaError._WAIT_COORD,
)
_NOT_A_MEMBER = (ck.KafkaError.ILLEGAL_GENERATION, ck.KafkaError.UNKNOWN_MEMBER_ID)
"""The group has gone on without this member: its partitions are about to be lost, and with them what there was to commit."""


STATISTICS_MS = 5_000


class StreamConsumer:
    """See the module."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings
        self._complaint = ""
        self._is_member = False
        self._assigned: set[TopicPartition] = set()
        self._assignments = 0  # counts every change of what is assigned
        properties = settings.client_properties()
        properties.setdefault("client.id", "streamactors")
        properties.setdefault("statistics.interval.ms", STATISTICS_MS)
        properties.setdefault("stats_cb", self._on_statistics)
        self._given = 0
        self._statistics: tuple[str, int] | None = None
        self._unknown: set[TopicPartition] = set()
        self._lost: set[TopicPartition] = set()
        properties["error_cb"] = self._on_error
        properties["logger"] = logging.getLogger("streamactors.kafka.librdkafka")
        if not properties["group.id"]:
            properties["group.id"] = "streamactors-no-group"  # librdkafka wants one; nothing is committed to it
        try:
            self._client = ck.Consumer(properties)
        except ck.KafkaException as error:
            raise KafkaError(f"consumer settings: {error.args[0].str().strip()}") from None
        except (TypeError, ValueError) as error:
            raise KafkaError(f"consumer settings: {error}") from None

    def _on_statistics(self, text: str) -> None:
        self._statistics = (text, self._given)  # read when somebody asks
        unknown = unknown_partitions(text)
        self._lost = unknown & self._unknown  # twice in a row: a broker that starts may not know its topics yet
        self._unknown = unknown

    def _on_error(self, error: Any) -> None:
        self._complaint = error.str()
        _log.info("%s: %s", self._settings.bootstrap_servers, error.str())

    # ── before it starts ──────────────────────────────────────────────────────────────────────────────────────────

    def preflight(self, topics: Iterable[str]) -> None:
        """Raise NoBroker or TopicNotFound, in one sentence, unless the broker answers and has the topics."""
        known = known_topics(self._client, self._settings, lambda: self._complaint)
        for topic in topics:
            if topic not in known:
                self._check_authorised(topic)
                raise TopicNotFound(
                    f"no topic {topic} at {self._settings.bootstrap_servers}; create it with: streamactors topics create {topic}"
                )

    def _check_authorised(self, topic: str) -> None:
        """A topic that we must not see is not in the list; asked for by its name it says so."""
        try:
            found = self._client.list_topics(topic, timeout=self._settings.preflight_timeout_ms / 1_000).topics[topic]
        except (ck.KafkaException, KeyError):
            return
        if found.error is not None and found.error.code() == ck.KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise ConsumerFailed(
                f"not authorised to read topic {topic} at {self._settings.bootstrap_servers}; "
                "its owner must allow this user to DESCRIBE and READ it"
            )

    def subscribe(
        self,
        names: Sequence[str],
        on_assign: Callable[[list[TopicPartition]], None],
        on_revoke: Callable[[list[TopicPartition]], None],
        on_lost: Callable[[list[TopicPartition]], None],
    ) -> None:
        """Join the group; the callbacks run inside `poll`."""

        def told(
            callback: Callable[[list[TopicPartition]], None], change: Callable[[list[TopicPartition]], None]
        ) -> Callable[[Any, Any], None]:
            def called(_: Any, partitions: Any) -> None:
                keys = [TopicPartition(p.topic, p.partition) for p in partitions]
                self._assignments += 1
                change(keys)
                callback(keys)

            return called

        gained, gone = self._assigned.update, self._assigned.difference_update
        self._is_member = True
        self._client.subscribe(
            list(names),
            on_assign=told(on_assign, gained),
            on_revoke=told(on_revoke, gone),
            on_lost=told(on_lost, gone),
        )

    def assign(self, starts: Mapping[TopicPartition, int | None]) -> None:
        """Read these partitions, each from its offset; None: from the committed one."""
        self._assigned = set(starts)
        self._assignments += 1
        self._client.assign(
            [ck.TopicPartition(*key, ck.OFFSET_STORED if offset is None else offset) for key, offset in starts.items()]
        )

    def assign_more(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions besides."""
        self._assigned.update(starts)
        self._assignments += 1
        self._client.incremental_assign([ck.TopicPartition(*key, offset) for key, offset in starts.items()])

    # ── looking things up ─────────────────────────────────────────────────────────────────────────────────────────

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition at or after a time; the end where there is none."""
        asked = [ck.TopicPartition(*key, time) for key, time in times_ms.items()]
        try:
            found = self._client.offsets_for_times(asked, timeout=REQUEST_TIMEOUT_MS / 1_000)
        except ck.KafkaException as error:
            raise KafkaError(f"offsets for times: {error.args[0].str()}") from None
        return {TopicPartition(p.topic, p.partition): p.offset if p.offset >= 0 else ck.OFFSET_END for p in found}

    def stable_ends(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the last stable offsets: where a bounded read ends."""
        return self._ends(keys, ck.IsolationLevel.READ_COMMITTED)

    def high_watermarks(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets behind everything written, open transactions included. A consumer of committed records calls the last
        stable offset its watermark; here it is the partition's."""
        return self._ends(keys, ck.IsolationLevel.READ_UNCOMMITTED)

    def _ends(self, keys: Iterable[TopicPartition], isolation: Any) -> dict[TopicPartition, int]:
        wanted = list(keys)
        if not wanted:
            return {}
        admin = ck_admin.AdminClient(
            {
                **self._settings.address(),
                "logger": logging.getLogger("streamactors.kafka.librdkafka"),
                "log_level": 4,  # its farewell comes when the logger is gone, and would go to the terminal
            }
        )
        asked = {ck.TopicPartition(*key): ck_admin.OffsetSpec.latest() for key in wanted}
        futures = admin.list_offsets(asked, isolation_level=isolation, request_timeout=REQUEST_TIMEOUT_MS / 1_000)
        try:
            return {
                TopicPartition(p.topic, p.partition): f.result(REQUEST_TIMEOUT_MS / 1_000).offset
                for p, f in futures.items()
            }
        except ck.KafkaException as error:
            raise KafkaError(f"the ends of {', '.join(map(str, wanted))}: {error.args[0].str()}") from None

    def topics(self) -> dict[str, int]:
        """Return the topics with their numbers of partitions."""
        try:
            known = self._client.list_topics(timeout=REQUEST_TIMEOUT_MS / 1_000).topics
        except ck.KafkaException as error:
            raise KafkaError(f"topics: {error.args[0].str()}") from None
        return {name: len(topic.partitions) for name, topic in known.items()}

    def watermarks(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Return (first offset that is there, offset behind the last)."""
        found = {}
        for key in keys:
            try:
                found[key] = self._client.get_watermark_offsets(
                    ck.TopicPartition(*key), timeout=REQUEST_TIMEOUT_MS / 1_000
                )
            except ck.KafkaException as error:
                raise KafkaError(f"offsets of {key}: {error.args[0].str()}") from None
        return found

    def known_ends(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets behind the last records, as the last fetches told; asks nobody."""
        found = {key: self._client.get_watermark_offsets(ck.TopicPartition(*key), cached=True) for key in keys}
        return {key: ends[1] for key, ends in found.items() if ends is not None and ends[1] >= 0}

    def received(self) -> Received:
        """Return what has come from the broker; nothing before the first statistics."""
        if self._statistics is None:
            return Received()
        return received_of(*self._statistics)

    def positions(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets that will be read next, for partitions whose position is known."""
        found = self._client.position([ck.TopicPartition(*key) for key in keys])
        return {TopicPartition(p.topic, p.partition): p.offset for p in found if p.offset >= 0}

    def committed(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the group's committed offsets, where there are any."""
        try:
            found = self._client.committed(
                [ck.TopicPartition(*key) for key in keys], timeout=CONNECT_TIMEOUT_MS / 1_000
            )
        except ck.KafkaException as error:
            raise KafkaError(f"committed offsets: {error.args[0].str()}") from None
        return {TopicPartition(p.topic, p.partition): p.offset for p in found if p.offset >= 0}

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────

    def poll(self, limit: int, timeout_s: float) -> Batch:
        """Return up to `limit` records: wait up to `timeout_s` for the first, then take what is there. Raises ConsumerFailed."""
        batch = self.read(limit, timeout_s)
        return batch._replace(runs=[run._replace(records=wrapped(run.records)) for run in batch.runs])

    def read(self, limit: int, timeout_s: float) -> Batch:
        """As `poll`, with librdkafka's messages instead of records."""
        if self._lost:
            gone = ", ".join(map(str, sorted(self._lost)))
            raise ConsumerFailed(f"{gone}: the partition is not there any more; its topic was deleted, or created anew")
        client = self._client
        before = self._assignments
        messages = client.consume(limit, 0)  # under load something lies ready, and this call is the only one
        if not messages:
            first = client.poll(timeout_s) if timeout_s else None
            if first is None:
                return NOTHING
            messages = [first, *client.consume(limit - 1, 0)] if limit > 1 else [first]
        ends: list[tuple[TopicPartition, int]] = []
        if any(map(ck.Message.error, messages)):
            messages = self._without_events(messages, ends)
            if not messages:
                return Batch([], ends)
        self._given += len(messages)
        if len(self._assigned) == 1 and self._assignments == before:
            (key,) = self._assigned  # there is no other partition they could be of
            if all(key == (message.topic(), message.partition()) for message in (messages[0], messages[-1])):
                return Batch([run_of(key, messages)], ends)
        return Batch(runs_of(messages), ends)

    def _without_events(self, messages: list[Any], ends: list[tuple[TopicPartition, int]]) -> list[Any]:
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == ck.KafkaError._PARTITION_EOF:
                ends.append((TopicPartition(message.topic(), message.partition()), message.offset()))
            elif error.code() in _PASSING or (error.retriable() and not error.fatal()):
                _log.warning("%s: %s", self._settings.bootstrap_servers, error.str())
            else:
                where = f"{message.topic()}-{message.partition()}: " if message.topic() else ""
                raise ConsumerFailed(f"{where}{error.str()} ({error.name()})")
        return records

    def pause(self, keys: Iterable[TopicPartition]) -> None:
        """Fetch nothing of these partitions; what was prefetched is thrown away."""
        self._client.pause([ck.TopicPartition(*key) for key in keys])

    def resume(self, keys: Iterable[TopicPartition]) -> None:
        """End `pause`."""
        self._client.resume([ck.TopicPartition(*key) for key in keys])

    def seek(self, key: TopicPartition, offset: int) -> bool:
        """Read a partition from `offset` on. False: it is assigned but not being read yet; try again after the next poll."""
        try:
            self._client.seek(ck.TopicPartition(*key, offset))
        except ck.KafkaException as error:
            if error.args[0].code() in (ck.KafkaError._STATE, ck.KafkaError._UNKNOWN_PARTITION):
                return False
            raise ConsumerFailed(f"{key}: cannot be read from {offset}: {error.args[0].str()}") from None
        return True

    # ── committing ────────────────────────────────────────────────────────────────────────────────────────────────

    def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit and wait. False: not now, try again. Raises CommitFailed for what will not get better."""
        told = [ck.TopicPartition(*key, offset) for key, offset in offsets.items()]
        try:
            answers = self._client.commit(offsets=told, asynchronous=False)
        except ck.KafkaException as error:
            return self._judge(error.args[0], offsets)
        for answer in answers:
            if answer.error is not None:
                return self._judge(answer.error, {TopicPartition(answer.topic, answer.partition): answer.offset})
        return True

    def group_metadata(self) -> Any:
        """Return what a transactional producer commits under. On the consumer's thread."""
        return self._client.consumer_group_metadata()

    def _judge(self, error: Any, offsets: Mapping[TopicPartition, int]) -> bool:
        if (
            error.code() in _RETRIABLE_COMMIT
            or error.retriable()
            or (self._is_member and error.code() in _NOT_A_MEMBER)
        ):
            return False
        named = ", ".join(f"{key}@{offset}" for key, offset in list(offsets.items())[:5])
        raise CommitFailed(f"group {self._settings.group_id}: {named} not committed: {error.str()} ({error.name()})")

    def close(self) -> None:
        """Leave the group and the broker."""
        self._client.close()
