"""An admin client of a simulated cluster, with the methods of confluent-kafka's AdminClient that the connector calls.

Owner: one task. A request without an answer is sent again until its `request_timeout` is over, as by librdkafka. Users, rights and quotas are not
simulated: asking for them raises KafkaException (_NOT_IMPLEMENTED)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.config.describe import ConfigEntry, ConfigSource
from streamactors.broker.controller.command import ConfigChange, MorePartitions, NewTopic, Outcome, ResourceChange
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.metadata_record import TOPIC_RESOURCE
from streamactors.kafka.client.connection import ck, ck_admin
from streamactors.simulation.client.administering.descriptions import description_of, listing_of, topic_of
from streamactors.simulation.client.administering.futures import SimFuture
from streamactors.simulation.client.base import SimClient
from streamactors.simulation.client.errors import answered, failure
from streamactors.simulation.client.link import Api
from streamactors.simulation.cluster.apis import admin
from streamactors.simulation.cluster.apis.data import EARLIEST, LATEST, ListOffset, Metadata, list_offset, metadata

if TYPE_CHECKING:
    from streamactors.simulation.cluster.cluster import SimulatedCluster
    from streamactors.simulation.world.face import World

_AGAIN_MS: Final = 100.0
_TIMEOUT_S: Final = 60.0
_MOVING: Final = frozenset(
    {
        None,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
Outcomes = Mapping[Any, SimFuture]


class SimAdmin(SimClient):
    """An admin client."""

    kind = "admin"

    def __init__(self, world: World, cluster: SimulatedCluster, properties: Mapping[str, Any]) -> None:
        super().__init__(world, cluster, properties)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise failure(ck.KafkaError._NOT_IMPLEMENTED, f"AdminClient.{name} is not simulated")

    def poll(self, timeout: float = 0) -> int:
        """Serve callbacks; return how many there were."""
        return self.serve_events()

    def __len__(self) -> int:
        return 0

    # --- asking ---

    def _ask(
        self, api: Api, asked: Any, broker: Callable[[], int], timeout_s: float, then: Callable[[Any], None],
        failed: Callable[[Any], None],
    ) -> None:  # fmt: skip
        until_ms = self.world.now_ms() + timeout_s * 1_000

        def ask() -> None:
            self.link.ask(api, broker(), asked, after)

        def after(error: ErrorCode | None, answer: Any) -> None:
            if error is ErrorCode.NONE:
                then(answer)
            elif error in _MOVING and self.world.now_ms() + _AGAIN_MS < until_ms:
                self.link.later(_AGAIN_MS, ask, f"{api.__name__} again")
            elif error is None:
                failed(failure(ck.KafkaError._TIMED_OUT))
            else:
                failed(failure(answered(error)))

        ask()

    def _each(
        self,
        api: Api,
        keys: Sequence[Any],
        asked: Any,
        result: Callable[[int, Any, SimFuture], None],
        options: Mapping[str, Any],
    ) -> Outcomes:
        """Ask one broker for several things. `result(index, answer, future)` settles the future of one."""
        futures = {key: SimFuture(self.world) for key in keys}

        def then(answers: Any) -> None:
            for index, (key, answer) in enumerate(zip(keys, answers, strict=True)):
                result(index, answer, futures[key])

        def failed(error: Any) -> None:
            for future in futures.values():
                future.set_exception(error)

        self._ask(api, asked, self.cluster.any_broker, options.get("request_timeout", _TIMEOUT_S), then, failed)
        return futures

    # --- topics ---

    def create_topics(self, new_topics: Sequence[Any], **options: Any) -> Outcomes:
        """Create topics; return a future for each name."""
        asked = [
            NewTopic(
                each.topic, each.num_partitions, each.replication_factor,
                tuple(enumerate(map(tuple, each.replica_assignment or ()))), tuple((each.config or {}).items()),
            )
            for each in new_topics
        ]  # fmt: skip
        return self._each(admin.create_topics, [each.name for each in asked], asked, _settle_outcome, options)

    def delete_topics(self, topics: Sequence[str], **options: Any) -> Outcomes:
        """Delete topics; return a future for each name."""
        return self._each(admin.delete_topics, list(topics), list(topics), _settle_outcome, options)

    def create_partitions(self, new_partitions: Sequence[Any], **options: Any) -> Outcomes:
        """Let topics grow; return a future for each name."""
        asked = [MorePartitions(each.topic, each.new_total_count) for each in new_partitions]
        return self._each(admin.create_partitions, [each.name for each in asked], asked, _settle_outcome, options)

    def describe_topics(self, topics: Any, **options: Any) -> Outcomes:
        """Describe topics; return a future for each name."""

        def result(_: int, known: Any, future: SimFuture) -> None:
            if known.error is ErrorCode.NONE:
                future.set_result(topic_of(known.name, self.cluster))
            else:
                future.set_exception(failure(int(known.error)))

        names = list(topics.topic_names)
        return self._each(metadata, names, Metadata(names), result, options)

    # --- settings ---

    def describe_configs(self, resources: Sequence[Any], **options: Any) -> Outcomes:
        """Return the settings of topics, as futures."""

        def result(_: int, found: admin.TopicConfigs, future: SimFuture) -> None:
            if _settled(found.outcome, future):
                return
            future.set_result({entry.name: _entry(entry) for entry in found.entries})

        asked = [each.name for each in _topics_only(resources)]
        return self._each(admin.describe_configs, list(resources), asked, result, options)

    def incremental_alter_configs(self, resources: Sequence[Any], **options: Any) -> Outcomes:
        """Change settings of topics; return a future for each resource."""
        asked = [
            ResourceChange(
                TOPIC_RESOURCE, each.name,
                tuple(
                    ConfigChange(entry.name, entry.value or None, entry.incremental_operation.value)
                    for entry in each.incremental_configs
                ),
            )
            for each in _topics_only(resources)
        ]  # fmt: skip
        return self._each(admin.alter_configs, list(resources), asked, _settle_outcome, options)

    # --- records ---

    def list_offsets(self, topic_partition_offsets: Mapping[Any, Any], **options: Any) -> Outcomes:
        """Return the offset of a time in each partition, as futures."""
        committed_only = options.get("isolation_level") == ck.IsolationLevel.READ_COMMITTED
        futures: dict[Any, SimFuture] = {}
        for partition, spec in topic_partition_offsets.items():
            key, time = (partition.topic, partition.partition), spec._value
            if time not in (LATEST, EARLIEST) and time < 0:
                raise failure(ck.KafkaError._NOT_IMPLEMENTED, f"list_offsets: {spec} is not simulated")
            future = futures[partition] = SimFuture(self.world)
            asked = ListOffset(key, time, committed_only and time == LATEST)

            def then(listed: Any, future: SimFuture = future) -> None:
                future.set_result(ck_admin.ListOffsetsResultInfo(listed.offset, listed.timestamp, 0))

            def broker(key: tuple[str, int] = key) -> int:
                return (
                    self.cluster.any_broker() if self.cluster.topics.get(*key) is None else self.cluster.leader_of(*key)
                )

            timeout_s = options.get("request_timeout", _TIMEOUT_S)
            self._ask(list_offset, asked, broker, timeout_s, then, future.set_exception)
        return futures

    def delete_records(self, topic_partition_offsets: Sequence[Any], **options: Any) -> Outcomes:
        """Delete the records before offsets; return a future for each partition."""

        def result(_: int, answer: tuple[ErrorCode, int], future: SimFuture) -> None:
            error, start = answer
            if error is ErrorCode.NONE:
                future.set_result(ck_admin.DeletedRecords(start))
            else:
                future.set_exception(failure(int(error)))

        asked = [admin.TrimTo(each.topic, each.partition, each.offset) for each in topic_partition_offsets]
        return self._each(admin.delete_records, list(topic_partition_offsets), asked, result, options)

    # --- groups ---

    def list_consumer_groups(self, **options: Any) -> SimFuture:
        """Return all groups, as a future."""
        future = SimFuture(self.world)

        def then(groups: Any) -> None:
            future.set_result(ck_admin.ListConsumerGroupsResult([listing_of(each) for each in groups], []))

        timeout_s = options.get("request_timeout", _TIMEOUT_S)
        self._ask(admin.list_groups, None, self.cluster.any_broker, timeout_s, then, future.set_exception)
        return future

    def describe_consumer_groups(self, group_ids: Sequence[str], **options: Any) -> Outcomes:
        """Return groups with their members, as futures."""
        return self._groups(
            admin.describe_group, group_ids, lambda name, found: description_of(name, found, self.cluster), options
        )

    def delete_consumer_groups(self, group_ids: Sequence[str], **options: Any) -> Outcomes:
        """Delete groups without members; return a future for each."""
        return self._groups(admin.delete_group, group_ids, lambda _name, _found: None, options)

    def _groups(
        self, api: Api, group_ids: Sequence[str], made: Callable[[str, Any], Any], options: Mapping[str, Any]
    ) -> Outcomes:
        futures = {}
        for name in group_ids:
            future = futures[name] = SimFuture(self.world)

            def then(found: Any, name: str = name, future: SimFuture = future) -> None:
                future.set_result(made(name, found))

            def broker(name: str = name) -> int:
                return self.cluster.group_coordinator(name)

            timeout_s = options.get("request_timeout", _TIMEOUT_S)
            self._ask(api, name, broker, timeout_s, then, future.set_exception)
        return futures


def _entry(setting: ConfigEntry) -> Any:
    made = ck_admin.ConfigEntry(setting.name, setting.value)
    made.source = int(setting.source)  # a number in librdkafka's answers, too
    made.is_read_only, made.is_default = setting.read_only, setting.source is ConfigSource.DEFAULT
    return made


def _settled(outcome: Outcome, future: SimFuture) -> bool:
    if outcome.code is ErrorCode.NONE:
        return False
    future.set_exception(failure(int(outcome.code), outcome.message))
    return True


def _settle_outcome(_: int, outcome: Outcome, future: SimFuture) -> None:
    if not _settled(outcome, future):
        future.set_result(None)


def _topics_only(resources: Sequence[Any]) -> Sequence[Any]:
    for each in resources:
        if each.restype is not ck_admin.ResourceType.TOPIC:
            raise failure(ck.KafkaError._NOT_IMPLEMENTED, f"settings of {each.restype.name} are not simulated")
    return resources
