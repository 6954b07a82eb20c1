"""The admin client: topics and their settings, offsets, consumer groups, users and their rights.

Owner: whoever makes it. Every call waits for the broker's answer and raises KafkaError when there is none or the broker refuses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from streamactors.errors import BuildError
from streamactors.kafka.client import admin_security
from streamactors.kafka.client.admin_security import AclEntry, User
from streamactors.kafka.client.admin_values import (
    Group,
    ListedGroup,
    Member,
    PartitionDetail,
    Placement,
    TopicDetail,
    TopicSummary,
)
from streamactors.kafka.client.connection import REQUEST_TIMEOUT_MS, ClientConnection, ck, ck_admin
from streamactors.kafka.client.created_topics import made_here
from streamactors.kafka.client.diagnosis.rights import Right
from streamactors.kafka.client.offsets.group_offsets import AGAIN_S, commit_offsets, group_offsets, is_moving
from streamactors.kafka.client.offsets.listed_offsets import answer, listed_offsets
from streamactors.kafka.errors import GroupInUse, GroupNotFound, KafkaError, NoBroker, TopicError
from streamactors.kafka.settings import ClientSettings
from streamactors.kafka.subscriptions import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1
"""Points of time for `Admin.offsets`; any other is ms since 1970."""

DESCRIBE_CLUSTER: Final = Right("DESCRIBE", "CLUSTER", "")
_WAIT: Final = {"request_timeout": REQUEST_TIMEOUT_MS / 1_000}
_LONG: Final = {"request_timeout": 3_600}
"""For requests to a coordinator. librdkafka 2.16 ends the process with an assertion when such a request has timed out and is answered later; so
`_of_group` has the timeout."""
_STATES: Final = {"PREPARING_REBALANCING": "PreparingRebalance", "COMPLETING_REBALANCING": "CompletingRebalance"}


class Admin:
    """Calls librdkafka's admin client and raises this package's errors. A context manager; it needs no closing, for its connections end with the
    last reference to it."""

    def __init__(self, settings: ClientSettings) -> None:
        self._connection = ClientConnection(settings)
        self._connection.check_names()
        self._settings = settings
        self._client = self._connected()

    def _connected(self) -> Any:
        # librdkafka logs its end when the logger is gone, and then to the terminal: at level 4 it logs no end
        return self._connection.make(ck_admin.AdminClient, {**self._settings.address(), "log_level": 4})

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        self._client = None

    # ── topics ────────────────────────────────────────────────────────────────────────────────────────────────────

    def topics(self) -> list[TopicSummary]:
        """Return all topics by name."""
        return sorted(
            TopicSummary(
                name, len(topic.partitions), max((len(p.replicas) for p in topic.partitions.values()), default=0)
            )
            for name, topic in self._connection.known_topics(self._client).items()
        )

    def placements(self) -> dict[TopicPartition, Placement]:
        """Return where each partition of every topic is."""
        return {
            TopicPartition(name, number): Placement(p.leader, tuple(p.replicas), tuple(p.isrs))
            for name, topic in self._connection.known_topics(self._client).items()
            for number, p in topic.partitions.items()
        }

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic. Raises TopicNotFound."""
        return [TopicPartition(topic, number) for number in sorted(self._topic(topic).partitions)]

    def topic_ids(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return the ids of topics, which distinguish a topic from a later one of the same name. None for an id that the brokers
        do not report: they have topic ids since Kafka 2.8."""
        asked = ck.TopicCollection(list(names))
        if not asked.topic_names:
            return {}
        found = self._client.describe_topics(asked, **_WAIT)
        ids = {
            name: self._result(f"the id of topic {name}", future, ("DESCRIBE", "TOPIC", name)).topic_id
            for name, future in found.items()
        }
        return {name: str(found) if _is_id(found) else None for name, found in ids.items()}

    def cluster_id(self) -> str | None:
        """Return the id of the cluster, None when the brokers do not report it."""
        try:
            return self._client.list_topics(timeout=REQUEST_TIMEOUT_MS / 1_000).cluster_id or None
        except ck.KafkaException as error:
            raise self._connection.failure(error, "the cluster's id") from None

    def describe(self, name: str) -> TopicDetail:
        """Return a topic with its partitions, offsets and own settings; -1 for the leader and offsets of a partition without leader. Raises
        TopicNotFound."""
        partitions = self._partitions(name, leaderless_ok=True)
        resource = ck_admin.ConfigResource(ck_admin.ResourceType.TOPIC, name)
        (future,) = self._client.describe_configs([resource], **_WAIT).values()
        own = ck_admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        entries = sorted(self._result(f"the settings of {name}", future, ("DESCRIBE_CONFIGS", "TOPIC", name)).items())
        return TopicDetail(name, partitions, {n: str(entry.value) for n, entry in entries if entry.source == own})

    def partitions(self, name: str) -> tuple[PartitionDetail, ...]:
        """Return the partitions of a topic with their offsets. A client that may read the topic may ask. Raises TopicNotFound."""
        return self._partitions(name)

    def _partitions(self, name: str, *, leaderless_ok: bool = False) -> tuple[PartitionDetail, ...]:
        found = {TopicPartition(name, number): p for number, p in sorted(self._topic(name).partitions.items())}
        asked = [key for key, p in found.items() if p.leader >= 0 or not leaderless_ok]
        earliest, latest = (self.offsets(dict.fromkeys(asked, at)) for at in (EARLIEST, LATEST))
        return tuple(
            PartitionDetail(
                key.partition, p.leader, tuple(p.replicas), tuple(p.isrs), earliest.get(key, -1), latest.get(key, -1)
            )
            for key, p in found.items()
        )

    def create(
        self,
        topics: str | Iterable[str],
        partitions: int = -1,
        replicas: int = -1,
        settings: Mapping[str, str] | None = None,
        *,
        exist_ok: bool = False,
    ) -> None:
        """Create topics; -1 asks for the broker's default. Raises TopicError, with `exist_ok` not for a topic that exists."""
        self._connection.known_topics(self._client)
        names = [topics] if isinstance(topics, str) else list(topics)
        wanted = [ck_admin.NewTopic(name, partitions, replicas, config=dict(settings or {})) for name in names]
        may_be = ck.KafkaError.TOPIC_ALREADY_EXISTS if exist_ok else None
        self._change(self._client.create_topics(wanted, **_WAIT), "CREATE", may_be)
        made_here.update(names)

    def delete(self, name: str) -> None:
        """Delete a topic and its records. Raises TopicNotFound, TopicError."""
        self._topic(name)
        self._change(self._client.delete_topics([name], **_WAIT), "DELETE")

    def grow(self, name: str, partitions: int) -> None:
        """Raise the number of a topic's partitions. Raises TopicNotFound, TopicError."""
        self._topic(name)
        self._change(self._client.create_partitions([ck_admin.NewPartitions(name, partitions)], **_WAIT), "ALTER")

    def alter(self, name: str, settings: Mapping[str, str | None]) -> None:
        """Set settings of a topic; None removes one. Raises TopicNotFound, TopicError."""
        self._topic(name)
        operation = ck_admin.AlterConfigOpType
        changes = [
            ck_admin.ConfigEntry(
                setting, value or "", incremental_operation=operation.DELETE if value is None else operation.SET
            )
            for setting, value in settings.items()
        ]
        resource = ck_admin.ConfigResource(ck_admin.ResourceType.TOPIC, name, incremental_configs=changes)
        (future,) = self._client.incremental_alter_configs([resource], **_WAIT).values()
        self._change({name: future}, "ALTER_CONFIGS")

    def _topic(self, name: str) -> Any:
        known = self._connection.known_topics(self._client)
        topic = known.get(name)
        if topic is None:
            self.check_rights([Right("DESCRIBE", "TOPIC", name)])  # a list leaves out what must not be seen
            raise self._connection.no_topic(name, known)
        return topic

    # ── offsets ───────────────────────────────────────────────────────────────────────────────────────────────────

    def offsets(
        self, at: Mapping[TopicPartition, int], *, committed: bool = False, unknown_ok: bool = False
    ) -> dict[TopicPartition, int]:
        """Return each partition's first offset at or after a point of time: EARLIEST, LATEST or ms since 1970; -1 where there is none.

        LATEST with `committed` is the last stable offset, without it the high watermark. With `unknown_ok` a partition that does not
        exist or has no leader is left out. Raises BuildError for what is no mapping."""
        if not isinstance(at, Mapping):
            raise BuildError(
                f"Admin.offsets takes partitions and times, as in {{TopicPartition('orders', 0): -1}} for the end; got {type(at).__name__} {at!r}"
            )
        if not at:
            return {}
        asked = {key: _offset_spec(time) for key, time in at.items()}
        isolation = ck.IsolationLevel.READ_COMMITTED if committed else ck.IsolationLevel.READ_UNCOMMITTED
        found = {}
        again = None if unknown_ok else self._connected
        for key, listed in listed_offsets(self._client, asked, isolation, again=again).items():
            if not isinstance(listed, ck.KafkaException):
                found[key] = listed.offset
            elif not unknown_ok:
                raise self._connection.failure(listed, f"the offsets of {key}", Right("DESCRIBE", "TOPIC", key.topic))
        return found

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Delete the records of these partitions below these offsets."""
        wanted = [ck.TopicPartition(*key, offset) for key, offset in before.items()]
        for partition, future in self._client.delete_records(wanted, **_WAIT).items():
            self._result(f"the records of {_key(partition)}", future, ("DELETE", "TOPIC", partition.topic))

    # ── groups ────────────────────────────────────────────────────────────────────────────────────────────────────

    def groups(self) -> list[ListedGroup]:
        """Return the consumer groups by name."""
        self._connection.known_topics(self._client)
        found = self._result("the groups", self._client.list_consumer_groups(**_WAIT))
        for error in found.errors:
            raise self._connection.failure(error, "the groups")
        return sorted(
            ListedGroup(g.group_id, _state(g), "" if g.is_simple_consumer_group else "consumer") for g in found.valid
        )

    def describe_group(self, group: str) -> Group:
        """Return a group with its members. Raises GroupNotFound."""
        self._connection.known_topics(self._client)
        found = self._of_group(group, self._client.describe_consumer_groups, "DESCRIBE")
        if _state(found) == "Dead":
            raise _no_group(group)
        members = tuple(
            Member(
                m.member_id,
                m.client_id,
                m.host,
                m.group_instance_id,
                tuple(sorted(map(_key, m.assignment.topic_partitions if m.assignment else ()))),
            )
            for m in found.members
        )
        at = found.coordinator
        return Group(group, _state(found), found.partition_assignor, members, (at.host, at.port, at.id))

    def members(self, group: str) -> tuple[Member, ...]:
        """Return the members of a group; none when there is no such group."""
        try:
            return self.describe_group(group).members
        except GroupNotFound:
            return ()

    def committed(self, group: str, keys: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Return a group's committed offsets, of all partitions or of `keys`; a partition without one is left out."""
        return {key: offset for key, (offset, _) in self.committed_with_metadata(group, keys).items()}

    def committed_with_metadata(
        self, group: str, keys: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, tuple[int, str]]:
        """As `committed`, each offset with the metadata that was committed with it, else with an empty string."""
        asked = self._all_partitions() if keys is None else keys
        wanted = [ck.TopicPartition(*key) for key in asked]
        if not wanted or not group:
            return {}
        try:
            found = group_offsets(self._connection, self._settings, group, wanted)
        except ck.KafkaException as error:
            raise self._connection.failure(error, f"group {group!r}", Right("DESCRIBE", "GROUP", group)) from None
        return {_key(p): (p.offset, p.metadata or "") for p in found if p.offset >= 0 and p.error is None}

    def _all_partitions(self) -> list[TopicPartition]:
        known = self._connection.known_topics(self._client)
        return [TopicPartition(name, number) for name, topic in known.items() for number in topic.partitions]

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], note: str = "") -> None:
        """Set the committed offsets of a group that has no members, each with a note. Raises GroupInUse."""
        wanted = [ck.TopicPartition(*key, offset, metadata=note) for key, offset in offsets.items()]
        try:
            done = commit_offsets(self._connection, self._settings, group, wanted)
        except ck.KafkaException as error:
            raise self._group_failure(group, error, "READ") from None
        for p in done:
            if p.error is not None:
                raise self._connection.failure(p.error, f"group {group!r}: {_key(p)}", Right("READ", "TOPIC", p.topic))

    def delete_group(self, group: str) -> None:
        """Delete a group and its committed offsets. Raises GroupNotFound, GroupInUse."""
        self._of_group(group, self._client.delete_consumer_groups, "DELETE")

    # ── users and rights ──────────────────────────────────────────────────────────────────────────────────────────

    def check_rights(self, rights: Iterable[Right]) -> None:
        """Raise KafkaError for rights on topics, groups and the cluster that this user lacks, as far as the broker reports them; NoBroker without one."""
        self._connection.known_topics(self._client)
        missing = self.missing_rights(rights)
        if missing:
            raise KafkaError(self._connection.not_allowed(*missing))

    def missing_rights(self, rights: Iterable[Right]) -> list[Right]:
        """Return those of some rights on topics, groups and the cluster that this user lacks, as far as the broker reports them."""
        return admin_security.missing_rights(self._client, rights)

    def users(self) -> list[User]:
        """Return the SCRAM credentials by user; passwords cannot be read."""
        self.check_rights([DESCRIBE_CLUSTER])  # librdkafka 2.16 may crash with the broker's refusal
        return admin_security.users(self._client, self._result)

    def set_user(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512", iterations: int = 4096) -> None:
        """Set a user's password for SCRAM-SHA-256 or SCRAM-SHA-512."""
        self._connection.known_topics(self._client)
        admin_security.set_user(self._client, self._result, user, password, mechanism, iterations)

    def remove_user(self, user: str, mechanism: str = "SCRAM-SHA-512") -> None:
        """Remove a user's credential of one mechanism."""
        self._connection.known_topics(self._client)
        admin_security.remove_user(self._client, self._result, user, mechanism)

    def acls(self) -> list[AclEntry]:
        """Return all access control entries."""
        self.check_rights([DESCRIBE_CLUSTER])  # librdkafka 2.16 returns no entries in place of the broker's refusal
        return admin_security.acls(self._client, self._result)

    def add_acls(self, entries: Sequence[AclEntry]) -> None:
        """Add access control entries; an entry that exists already is not an error."""
        self._connection.known_topics(self._client)
        admin_security.add_acls(self._client, self._result, entries)

    def remove_acls(self, entry: AclEntry) -> int:
        """Remove an access control entry. Return how many were removed: 1, or 0 if there is no such entry."""
        self._connection.known_topics(self._client)
        return admin_security.remove_acls(self._client, self._result, entry)

    # ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _change(self, futures: Mapping[str, Any], operation: str, may_be: int | None = None) -> None:
        for name, future in futures.items():
            try:
                answer(future, REQUEST_TIMEOUT_MS / 1_000)
            except ck.KafkaException as error:
                if error.args[0].code() == may_be:
                    continue
                failure = self._connection.failure(error, f"topic {name}", Right(operation, "TOPIC", name))
                raise failure if isinstance(failure, NoBroker) else TopicError(str(failure)) from None

    def _result(self, what: str, future: Any, right: tuple[str, str, str] | None = None) -> Any:
        try:
            return answer(future, REQUEST_TIMEOUT_MS / 1_000)
        except ck.KafkaException as error:
            raise self._connection.failure(error, what, None if right is None else Right(*right)) from None

    def _of_group(self, group: str, ask: Callable[..., dict[str, Any]], operation: str) -> Any:
        """Ask the group's coordinator, again while it moves. librdkafka does not."""
        give_up = time.monotonic() + REQUEST_TIMEOUT_MS / 1_000
        while True:
            (future,) = ask([group], **_LONG).values()
            left_s = give_up - time.monotonic()
            try:
                return answer(future, left_s, grace_s=0)
            except ck.KafkaException as error:
                if not is_moving(error) or left_s < AGAIN_S:
                    raise self._group_failure(group, error, operation) from None
            time.sleep(AGAIN_S)

    def _group_failure(self, group: str, error: Any, operation: str) -> KafkaError:
        code = error.args[0].code()
        if code == ck.KafkaError.GROUP_ID_NOT_FOUND:
            return _no_group(group)
        if code in (ck.KafkaError.NON_EMPTY_GROUP, ck.KafkaError.UNKNOWN_MEMBER_ID):
            return GroupInUse(f"group {group!r} has members; stop them first: streamactors groups describe {group}")
        return self._connection.failure(error, f"group {group!r}", Right(operation, "GROUP", group))


def _key(partition: Any) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)


def _is_id(found: Any) -> bool:
    """True unless it is the zero id, which librdkafka gives for brokers without topic ids."""
    return found is not None and bool(found.get_most_significant_bits() or found.get_least_significant_bits())


def _offset_spec(time: int) -> Any:
    special: dict[int, Callable[[], Any]] = {EARLIEST: ck_admin.OffsetSpec.earliest, LATEST: ck_admin.OffsetSpec.latest}
    return special[time]() if time in special else ck_admin.OffsetSpec.for_timestamp(time)


def _state(group: Any) -> str:
    name: str = group.state.name
    return _STATES.get(name, name.capitalize())


def _no_group(group: str) -> KafkaError:
    return GroupNotFound(f"there is no group {group!r}; see: streamactors groups list")
