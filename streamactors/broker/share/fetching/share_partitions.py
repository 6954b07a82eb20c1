"""The share partitions whose partitions this broker leads, and the share sessions of their members.

Owner: the node, on the data plane. A share partition is made by the first fetch that names it, and goes when another broker leads the partition, when it
is fenced, or when no member of its group has a session here."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from streamactors.broker.config.group_settings import EARLIEST, reset_duration_ms
from streamactors.broker.errors import ErrorCode
from streamactors.broker.helpers import HelperOutcome
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.replication.partition_table import PartitionTable
from streamactors.broker.runtime import Runtime
from streamactors.broker.share.dead_letters.dead_letter import DeadLetter
from streamactors.broker.share.dead_letters.dead_letter_queue import CreateTopicWith, DeadLetterQueue
from streamactors.broker.share.fetching.led_share_partition import LedSharePartition, Outcome
from streamactors.broker.share.fetching.share_sessions import Place, ShareSession, ShareSessions
from streamactors.broker.share.group_config import ShareGroupConfig, share_group_config
from streamactors.broker.share.state.share_asks import Ask, Reply
from streamactors.broker.share.state.share_state import ShareKey
from streamactors.broker.share.state.share_states import ShareStates

if TYPE_CHECKING:
    from streamactors.actors.dispatching.timing_wheel import Timer

_NOT_LEADER: Final = Outcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class SharePartitions:
    """The share partitions of this broker, by key."""

    def __init__(
        self, node: Runtime, partitions: PartitionTable, states: ShareStates, create_topic: CreateTopicWith
    ) -> None:
        self._node = node
        self._partitions = partitions
        self._states = states
        self._led: dict[ShareKey, LedSharePartition] = {}
        self.dead_letters = DeadLetterQueue(node, partitions, create_topic)
        self._configs: dict[str, ShareGroupConfig] = {}
        self._configs_under: tuple[object, ...] = (None, None, None)
        """The settings of the broker and of the cluster, and the features, under which `_configs` count."""
        self.sessions = ShareSessions(node.config.group_share_max_share_sessions)

    def start(self) -> None:
        """Follow the metadata: another broker may lead a partition."""
        self._node.metadata.subscribe(self._changed)

    def stop(self) -> None:
        """Forget every share partition. What is acquired is delivered again by the next leader, after its lock or at once."""
        for led in tuple(self._led.values()):
            led.end(_NOT_LEADER)
        self.dead_letters.stop()

    def _changed(self, delta: ImageDelta) -> None:
        touched = {topic.topic_id for topic in (*delta.changed, *delta.deleted)}
        for key, led in tuple(self._led.items()):
            if key.topic_id in touched and not self._still_leads(led):
                led.end(_NOT_LEADER)

    def _still_leads(self, led: LedSharePartition) -> bool:
        return led.partition.is_leader and led.partition.leader_epoch == led.leader_epoch

    # --- share partitions ---

    def active(self) -> list[LedSharePartition]:
        """Return the share partitions that are loaded."""
        return [led for led in self._led.values() if led.is_active]

    def get(self, key: ShareKey) -> LedSharePartition | None:
        """Return a share partition that a fetch has named before."""
        return self._led.get(key)

    def led(self, key: ShareKey) -> LedSharePartition | ErrorCode:
        """Return the share partition, made and being loaded if need be; or why this broker does not have it."""
        topic = self._node.metadata.image.topics_by_id.get(key.topic_id)
        if topic is None or not 0 <= key.partition < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is not None else ErrorCode.UNKNOWN_TOPIC_ID
        partition = self._partitions.get(topic.name, key.partition)
        if partition is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        error = partition.client_error(-1)
        if error:
            return error
        led = self._led.get(key)
        if led is not None and self._still_leads(led):
            return led
        if led is not None:
            led.end(_NOT_LEADER)
        led = self._led[key] = LedSharePartition(self, key, partition)
        led.load()
        return led

    def forget(self, led: LedSharePartition) -> None:
        """A share partition has ended."""
        if self._led.get(led.key) is led:
            del self._led[led.key]

    # --- sessions ---

    def leave(self, session: ShareSession) -> None:
        """End a session: what its member has acquired is released. Without a session the group's share partitions are forgotten."""
        if not self.sessions.remove(session):
            return
        group_id, member_id = session.key
        last = not self.sessions.has_group(group_id)
        left = 0

        def released(_: Outcome) -> None:
            nonlocal left
            left -= 1
            if last and not left and not self.sessions.has_group(group_id):
                self._forget_group(group_id)

        led = [each for place in session.places if (each := self._led.get(ShareKey(group_id, *place))) is not None]
        left = len(led)
        for each in led:
            each.release(member_id, released)

    def _forget_group(self, group_id: str) -> None:
        for key, led in tuple(self._led.items()):
            if key.group_id == group_id:
                led.end(_NOT_LEADER)

    # --- what a share partition needs ---

    def config_of(self, group_id: str) -> ShareGroupConfig:
        """Return the settings of a group as they are now."""
        config, image = self._node.config, self._node.metadata.image
        under = config, image.configs, image.features
        if any(now is not before for now, before in zip(under, self._configs_under, strict=True)):
            self._configs_under = under
            self._configs.clear()
        found = self._configs.get(group_id)
        if found is None:
            found = self._configs[group_id] = share_group_config(config, image, group_id)
        return found

    def bury(self, letter: DeadLetter, source: HostedPartition, then: Callable[[], object]) -> None:
        """Write records to the dead letter queue of their group; call `then` when they are there or cannot be."""
        self.dead_letters.put(letter, self.config_of(letter.group_id), source, then)

    def ask(self, key: ShareKey, ask: Ask, then: Reply) -> None:
        """Ask the share coordinator."""
        self._states.ask(key, ask, then)

    def now_ms(self) -> float:
        """Return the time of the timers of locks."""
        return self._node.client_timers.clock.now_ms()

    def call_at(self, at_ms: float, call: Callable[[], object]) -> Timer:
        """Call a function at a time."""
        return self._node.client_timers.call_at(at_ms, call)

    def wake(self, key: ShareKey) -> None:
        """Check the fetches that wait for a share partition."""
        self._node.fetch_purgatory.check_and_complete(key)

    def first_offset(
        self, group_id: str, partition: HostedPartition, then: Callable[[int, BaseException | None], object]
    ) -> None:
        """Find the first offset of a share partition that was never fetched, as share.auto.offset.reset says."""
        reset = self.config_of(group_id).reset
        back_ms = reset_duration_ms(reset)
        if reset == EARLIEST:
            then(partition.log_start_offset, None)
        elif back_ms is None:
            then(partition.high_watermark, None)
        else:
            since_ms, bound = self._node.clock.wall_ms() - back_ms, partition.high_watermark

            def found(outcome: HelperOutcome[int]) -> None:
                then(bound if outcome.error is not None else outcome.get(), outcome.error)

            def search() -> int:
                listed = partition.log.reader.list_offset(max(since_ms, 0), bound)
                return bound if listed.offset < 0 else listed.offset

            self._node.helpers.run(search, found)

    def names(self, places: Iterable[Place]) -> dict[uuid.UUID, str]:
        """Return the names of the topics that exist."""
        topics = self._node.metadata.image.topics_by_id
        return {place.topic_id: topics[place.topic_id].name for place in places if place.topic_id in topics}
