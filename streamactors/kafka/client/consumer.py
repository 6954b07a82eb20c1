"""The consumer of a stream: librdkafka's, in batches of runs, with errors in this package's terms.

Owner: the consumer actor; every call from its thread, but `close`, which may take seconds, from a thread of its own. A call waits for any call of
another thread to return, a commit that waits for the broker included; therefore `commit` does not wait. `poll(n, t)` waits for the first record
only, then takes the records that librdkafka has ready. librdkafka's consume(n, t) would wait for all n records or for the full timeout."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.closed_consumer import ClosedConsumer
from streamactors.kafka.client.commit_calls import CommitCalls, Heard
from streamactors.kafka.client.connection import NO_TOPIC, ClientConnection, ck
from streamactors.kafka.client.consumer_lookups import ConsumerLookups, partitions
from streamactors.kafka.client.deleted_topics import DeletedTopics
from streamactors.kafka.client.diagnosis.rights import DENIED, Right
from streamactors.kafka.client.error_codes import MOVING_COORDINATOR, PASSING, RETRIABLE_SEEK
from streamactors.kafka.client.partition_watch import PartitionWatch
from streamactors.kafka.client.repeats import Repeats
from streamactors.kafka.client.runs import NOTHING, PollResult, RecordRun, run_of, runs_of, wrapped
from streamactors.kafka.client.statistics import sees_broker
from streamactors.kafka.client.unassigned import Unassigned
from streamactors.kafka.errors import ConsumerFailed, NoBroker, OffsetsGone, TopicNotFound
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.log_limit import alike, log_limited

_log = logging.getLogger("streamactors.kafka")

STATISTICS_MS = 5_000

LEAVING_S = 0.5
"""How long a member without partitions waits until it has left its group, before its client is closed."""
_LEAVING_POLL_S = 0.01
_REFUSED_HEARTBEAT = "ConsumerGroupHeartbeat fatal error: Broker: "
START_AGAIN_S = 0.2
"""After a coordinator could not tell where assigned partitions begin, they are assigned again after this time."""


class StreamConsumer(ConsumerLookups):
    """librdkafka's consumer, as the consumer actor uses it."""

    def __init__(self, settings: ConsumerSettings, *, several_topics: bool = False) -> None:
        """`several_topics`: a consumer group keeps partitions with the same number of several topics together, as a classic one does."""
        self._settings = settings
        self._repeats = Repeats()
        self._connection = ClientConnection(settings, on_reset=self._repeats.begin_again)
        self._is_member = self._leaving = False
        self._topics: set[str] = set()  # that it reads, without those of a pattern
        self._assigned: set[TopicPartition] = set()
        self.starts: dict[TopicPartition, int | None] = {}  # as in `assign`; where a later seek went
        self._assignments = 0  # counts every change of what is assigned
        self._given = 0
        self._gone_s = 0.0  # for how long no broker has been seen
        self._statistics = None
        self._watch = PartitionWatch()
        self._unassigned = Unassigned(settings)
        self._deleted = DeletedTopics(settings)
        self._pattern = False
        self._told_gone: set[str] = set()
        self._start_again_s = 0.0  # when partitions whose beginning is not known are assigned again; 0: there are none
        properties = settings.client_properties()
        if several_topics and settings.group_protocol == "consumer":
            properties.setdefault("group.remote.assignor", "range")
        properties.setdefault("statistics.interval.ms", STATISTICS_MS)
        self._users_statistics = properties.get("stats_cb")
        properties["stats_cb"] = self._on_statistics
        self._commits = CommitCalls(settings.group_id, properties.get("on_commit"), self._denied)
        properties["on_commit"] = self._commits.on_answer
        if not properties["group.id"]:
            properties["group.id"] = "streamactors-no-group"  # librdkafka wants one; nothing is committed to it
        self._client = self._connection.make(ck.Consumer, properties)

    def _on_statistics(self, text: str) -> None:
        self._statistics = (text, self._given)  # parsed when somebody asks
        self._gone_s = self._connection.look_for_broker(seen=sees_broker(text))
        if self._users_statistics is not None:
            self._users_statistics(text)
        self._watch.look(text)

    # ── before it starts ──────────────────────────────────────────────────────────────────────────────────────────

    def preflight(self, topics: Iterable[str], partitions: Iterable[TopicPartition] = ()) -> None:
        """Raise NoBroker or TopicNotFound unless the broker answers and has the topics and partitions."""
        known = self._connection.known_topics(self._client)
        self._watch.known({name: len(topic.partitions) for name, topic in known.items()})
        for topic in topics:
            self._topics.add(topic)
            if topic not in known:
                self._check_authorised(topic)
                raise self._connection.no_topic(topic, known)
        for key in partitions:
            count = len(known[key.topic].partitions)
            if count and key.partition >= count:
                raise TopicNotFound(
                    f"{key.topic} has no partition {key.partition} at {self._settings.bootstrap_servers}: it has {count}, numbered from 0"
                )

    def _check_authorised(self, topic: str) -> None:
        """A list of topics leaves out what this user may not see; the answer to a request for its name says so."""
        try:
            found = self._client.list_topics(topic, timeout=self._settings.preflight_timeout_ms / 1_000).topics[topic]
        except (ck.KafkaException, KeyError):
            return
        if found.error is not None and found.error.code() == ck.KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise ConsumerFailed(self._denied(found.error.code(), topic))

    def subscribe(
        self,
        names: Sequence[str],
        on_assign: Callable[[list[TopicPartition]], None],
        on_revoke: Callable[[list[TopicPartition]], None],
        on_lost: Callable[[list[TopicPartition]], None],
    ) -> None:
        """Join the group; the callbacks run inside `poll`."""

        Listener = Callable[[list[TopicPartition]], None]

        def counted(listener: Listener, change: Listener) -> Callable[[Any, Any], None]:
            def called(_: Any, partitions: Any) -> None:
                keys = [TopicPartition(p.topic, p.partition) for p in partitions]
                self._assignments += 1
                self._begin_again(keys)
                self.starts.update(dict.fromkeys(keys))
                change(keys)
                if not (
                    self._leaving and listener is on_assign
                ):  # the group has given out partitions while this member leaves
                    listener(keys)

            return called

        def add(keys: list[TopicPartition]) -> None:
            self._assigned.update(keys)
            self._watch.assigned()

        def remove(keys: list[TopicPartition]) -> None:
            self._assigned.difference_update(keys)
            if not self._pattern and not self._leaving:
                self._deleted.ask({key.topic for key in keys} - {key.topic for key in self._assigned})

        listeners = {
            "on_assign": counted(on_assign, add),
            "on_revoke": counted(on_revoke, remove),
            "on_lost": counted(on_lost, remove),
        }
        self._is_member = self._commits.of_member = True
        self._pattern = self._commits.of_pattern = any(name.startswith("^") for name in names)
        self._join: Callable[[], Any] = partial(self._client.subscribe, list(names), **listeners)
        self._join()

    def _join_again(self, unassigned: list[TopicPartition]) -> None:
        """Leave the group and join it again, so that it assigns all partitions."""
        servers, group, named = (
            self._settings.bootstrap_servers,
            self._settings.group_id,
            ", ".join(map(str, unassigned)),
        )
        _log.info("%s: no member of group %s reads %s; it leaves and joins again", servers, group, named)
        self._client.unsubscribe()
        self._join()

    def _tell_gone(self, gone: set[str]) -> None:
        """Leave out partitions of a pattern that are gone; for others raise OffsetsGone."""
        if not self._pattern:
            named = ", ".join(sorted(gone))
            raise OffsetsGone(f"{named}: does not exist any more; the topic was deleted, or created again")
        if new := gone - self._told_gone:
            self._told_gone |= new
            way = "does not exist any more; the stream continues with the other topics of its pattern"
            _log.warning("%s: %s %s", self._settings.bootstrap_servers, ", ".join(sorted(new)), way)

    def assign(self, starts: Mapping[TopicPartition, int | None]) -> None:
        """Read these partitions, each from its offset; None: from the committed one."""
        self._assigned = set(starts)
        self._assignments += 1
        self.starts = dict(starts)
        self._repeats.begin_all_again()
        self._client.assign(partitions(starts))

    def assign_more(self, starts: Mapping[TopicPartition, int | None]) -> None:
        """Read these partitions in addition; starts as in `assign`."""
        self._assigned.update(starts)
        self._assignments += 1
        self._begin_again(starts)
        self.starts.update(starts)
        self._client.incremental_assign(partitions(starts))

    def _start_again(self) -> None:
        """Assign those partitions again that have no position: librdkafka asks three times where they begin, and never again. A member of a group
        joins again."""
        self._start_again_s = 0.0
        asked = [ck.TopicPartition(*key) for key, start in self.starts.items() if start is None]
        lost = [each for each in self._client.position(asked) if each.offset < 0]
        if lost and self._is_member:
            self._client.unsubscribe()
            self._join()
        elif lost:
            self.assign_less(TopicPartition(each.topic, each.partition) for each in lost)
            self.assign_more({TopicPartition(each.topic, each.partition): None for each in lost})

    def assign_less(self, keys: Iterable[TopicPartition]) -> None:
        """Read these partitions no longer."""
        gone = list(keys)
        self._assigned.difference_update(gone)
        self._assignments += 1
        self._client.incremental_unassign([ck.TopicPartition(*key) for key in gone])

    def _begin_again(self, keys: Iterable[TopicPartition]) -> None:
        for key in keys:
            self._repeats.begin_again(key)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────

    def poll(self, limit: int, timeout_s: float) -> PollResult:
        """Return up to `limit` records: wait up to `timeout_s` for the first, then take those that are ready. Raises ConsumerFailed."""
        batch = self.read(limit, timeout_s)
        return batch._replace(runs=[run._replace(records=wrapped(run.records)) for run in batch.runs])

    def read(self, limit: int, timeout_s: float) -> PollResult:
        """As `poll`, with librdkafka's messages instead of records."""
        limit_ms = self._settings.outage_timeout_ms
        if limit_ms is not None and self._gone_s * 1_000 >= limit_ms:
            raise NoBroker(
                f"no broker at {self._settings.bootstrap_servers} for {self._gone_s:.1f} s, longer than outage_timeout_ms={limit_ms} "
                f"({self._connection.complaint})"
            )
        watch = self._watch
        if watch.gone:
            self._tell_gone(set(map(str, watch.gone)))
        if deleted := self._deleted.take():
            self._tell_gone(deleted)
        if watch.grown:
            self._unassigned.ask(watch.grown)
            watch.grown = {}
        if unassigned := self._unassigned.take():
            self._join_again(unassigned)
        if self._start_again_s and time.monotonic() >= self._start_again_s:
            self._start_again()
        client = self._client
        before = self._assignments
        messages = client.consume(limit, 0)  # under load records are ready, and this is the only call
        if not messages:
            first = client.poll(timeout_s) if timeout_s else None
            if first is None:
                return NOTHING
            messages = [first, *client.consume(limit - 1, 0)] if limit > 1 else [first]
        ends: list[tuple[TopicPartition, int]] = []
        if any(map(ck.Message.error, messages)):
            messages = self._without_events(messages, ends)
            if not messages:
                return PollResult([], ends)
        self._given += len(messages)
        if len(self._assigned) == 1 and self._assignments == before:
            (key,) = self._assigned  # every record belongs to the only assigned partition
            if all(key == (message.topic(), message.partition()) for message in (messages[0], messages[-1])):
                return PollResult(self._new([run_of(key, messages)]), ends)
        if self._assignments != before:
            self._repeats.begin_all_again()  # nobody knows which records came before the change
            return PollResult(runs_of(messages), ends)
        return PollResult(self._new(runs_of(messages)), ends)

    def _new(self, runs: list[RecordRun]) -> list[RecordRun]:
        return [new for run in runs if (new := self._repeats.without(run)) is not None]

    def _without_events(self, messages: list[Any], ends: list[tuple[TopicPartition, int]]) -> list[Any]:
        records, servers = [], self._settings.bootstrap_servers
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == ck.KafkaError._PARTITION_EOF:
                ends.append((TopicPartition(message.topic(), message.partition()), message.offset()))
            elif error.code() == ck.KafkaError.GROUP_AUTHORIZATION_FAILED and not self._settings.group_id:
                pass  # of the group that librdkafka wants to be named: without a group none is needed
            elif self._pattern and error.code() in NO_TOPIC:
                self._tell_gone({message.topic()})
            elif error.code() in MOVING_COORDINATOR:
                text = "the group's coordinator is moving, so the beginning of partitions is not known; they are asked for again"
                log_limited(_log, logging.WARNING, (servers, text), "%s: %s (%s)", servers, text, error.name())
                self._start_again_s = time.monotonic() + START_AGAIN_S
            elif error.code() in PASSING or (error.retriable() and not error.fatal()):
                text = error.str()
                log_limited(_log, logging.WARNING, (servers, alike(text)), "%s: %s", servers, text)
            else:
                where = f"{message.topic()}-{message.partition()}: " if message.topic() else ""
                if error.code() in DENIED:
                    raise ConsumerFailed(where + self._denied(error.code(), message.topic() or ""))
                if error.code() == ck.KafkaError._AUTO_OFFSET_RESET:
                    raise OffsetsGone(
                        f"{where}{error.str()} ({error.name()}); auto_offset_reset is 'error', 'earliest' or 'latest' would begin elsewhere; "
                        f"streamactors topics offsets {message.topic()} shows the offsets that exist"
                    )
                raise ConsumerFailed(f"{where}{error.str()} ({error.name()}){self._way_out(error)}")
        return records

    def _way_out(self, error: Any) -> str:
        _, refused, why = error.str().partition(_REFUSED_HEARTBEAT)
        if not refused:
            return ""
        if "API version not supported" in why:
            return (
                f"; {self._settings.bootstrap_servers} has no consumer groups: give group_protocol='classic', or raise the feature group.version "
                "of the cluster to 1 (Apache Kafka 4.0 or newer)"
            )
        if "group id does not exist" in why:
            return (
                f"; {self._settings.group_id} is a group of another kind, and the cluster does not convert it while it has members: give "
                "group_protocol='classic', stop all its members first, or see group.consumer.migration.policy of the brokers"
            )
        return ""

    def pause(self, keys: Iterable[TopicPartition]) -> None:
        """Stop fetching from these partitions; librdkafka drops what it has prefetched of them."""
        self._client.pause([ck.TopicPartition(*key) for key in keys])

    def resume(self, keys: Iterable[TopicPartition]) -> None:
        """End `pause`."""
        self._client.resume([ck.TopicPartition(*key) for key in keys])

    def seek(self, key: TopicPartition, offset: int) -> bool:
        """Read a partition from `offset` on. False: librdkafka is about to start or stop fetching it; try again after the next poll."""
        try:
            self._client.seek(ck.TopicPartition(*key, offset))
        except ck.KafkaException as error:
            if error.args[0].code() in RETRIABLE_SEEK:
                return False
            raise ConsumerFailed(f"{key}: cannot be read from {offset}: {error.args[0].str()}") from None
        self._repeats.begin_again(key)
        self.starts[key] = offset
        return True

    # ── committing ────────────────────────────────────────────────────────────────────────────────────────────────

    def commit(self, offsets: Mapping[TopicPartition, int], texts: Mapping[TopicPartition, str], heard: Heard) -> None:
        """Begin to commit, each offset with its metadata if it has one. A later call of `read` calls `heard` with the outcome.

        The request is sent before a request to join the group that follows: the positions of revoked partitions are committed before the rebalance ends."""
        self._commits.begin(self._client, offsets, texts, heard)

    def commit_and_wait(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit and wait, for a user who asks for it in a rebalance. False: retry later. Raises CommitFailed."""
        return self._commits.wait(self._client, offsets)

    def member_id(self) -> str:
        """Return the id of this member of its group; "" before it has one."""
        return str(self._client.memberid() or "")

    def group_metadata(self) -> Any:
        """Return the group membership that a transactional producer commits with. On the consumer's thread."""
        return self._client.consumer_group_metadata()

    def _denied(self, code: int, topic: str) -> str:
        """Return the sentence for a refusal of the broker. It names every right that this consumer lacks, not only the first."""
        group = self._settings.group_id or ""
        refused = Right("READ", "GROUP", group) if DENIED[code] == "GROUP" else Right("READ", "TOPIC", topic)
        needed = {Right("READ", "TOPIC", name): None for name in sorted(self._topics)}
        if group:
            needed[Right("READ", "GROUP", group)] = None
        return self._connection.not_allowed(refused, *Admin(self._settings).missing_rights(needed))

    def close(self) -> None:
        """Leave the group and the broker; later calls raise ConsumerFailed. Idempotent."""
        # This object and its callbacks in librdkafka's client refer to each other. The collector would free them late, and a process
        # cannot have more than about 1,000 clients that are not freed.
        self._deleted.close()
        client, self._client = self._client, ClosedConsumer(self._settings.bootstrap_servers)
        try:
            self._leave(client)
        finally:
            client.close()

    def _leave(self, client: Any) -> None:
        """Leave the group now where librdkafka's close would not do it: without partitions a cooperative member only stops its heartbeats, and
        the group would wait for it until session.timeout.ms.

        In the middle of a rebalance `unsubscribe` waits for its end, and `close` leaves at once. A static member stays, as in Apache Kafka."""
        properties = self._settings.client_properties()
        cooperative = "cooperative" in str(properties.get("partition.assignment.strategy", ""))
        if not self._is_member or self._assigned or not cooperative or properties.get("group.instance.id"):
            return
        self._leaving = True
        client.unsubscribe()
        until = time.monotonic() + LEAVING_S
        while client.memberid() and time.monotonic() < until:
            client.poll(_LEAVING_POLL_S)  # serves what is left of a rebalance
