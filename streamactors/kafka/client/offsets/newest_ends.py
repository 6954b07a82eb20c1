"""The ends of partitions, as the leaders of the newest epoch name them.

A leader that is cut off from its cluster may name an old end, and a broker that is cut off may know an old leader, or an earlier topic of this name.
So every broker that has a replica of a partition is asked, each for the leader that it knows: the next leader is one of them. The answer of the newest
leader epoch counts (KIP-320), among those of the topic id that most of them name. An end of an older epoch than one that this process has seen is
refused.

Owner: whoever asks. A cluster of one broker is asked once."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from streamactors.kafka.client.connection import REQUEST_TIMEOUT_MS
from streamactors.kafka.client.offsets.end_views import EndView, views_of_ends
from streamactors.kafka.errors import KafkaError, StaleAnswer
from streamactors.kafka.settings import ClientSettings
from streamactors.kafka.subscriptions import TopicPartition

MOST_KNOWN: Final = 20_000
AGAIN_S: Final = 0.5
_AT_ONCE: Final = 8
_log = logging.getLogger("streamactors.kafka")


class PartitionEnd(NamedTuple):
    """The end of a partition. `is_sure`: every broker that has a replica has answered."""

    offset: int
    leader_epoch: int
    topic_id: str | None
    is_sure: bool


class KnownEpochs:
    """The newest leader epoch that this process has seen of each partition, by topic id. Any thread."""

    def __init__(self, most: int = MOST_KNOWN) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._newest: OrderedDict[tuple[str, int], int] = OrderedDict()

    def saw(self, topic_id: str | None, partition: int, leader_epoch: int | None) -> int:
        """Remember the epoch of an answer or a record; return the newest one that is known."""
        if topic_id is None or leader_epoch is None or leader_epoch < 0:
            return -1
        place = (topic_id, partition)
        with self._lock:
            newest = max(self._newest.pop(place, -1), leader_epoch)
            self._newest[place] = newest
            if len(self._newest) > self._most:
                self._newest.popitem(last=False)
        return newest

    def check(self, key: TopicPartition, end: PartitionEnd) -> None:
        """Remember the epoch of an answer. Raises StaleAnswer if a newer one is known."""
        newest = self.saw(end.topic_id, key.partition, end.leader_epoch)
        if end.leader_epoch < newest:
            raise StaleAnswer(
                f"{key}: the leader of epoch {end.leader_epoch} names the end {end.offset}, and a leader of epoch {newest} is known: the broker that "
                "answered is cut off from its cluster"
            )


known_epochs: Final = KnownEpochs()


def newest_ends(
    settings: ClientSettings,
    keys: Iterable[TopicPartition],
    *,
    committed: bool = False,
    known: KnownEpochs = known_epochs,
) -> dict[TopicPartition, PartitionEnd]:
    """Return the high watermarks, or the last stable offsets with `committed`; ask again for a while if an answer is stale. Raises StaleAnswer,
    TopicNotFound, NoBroker, KafkaError."""
    wanted = list(keys)
    give_up_s = time.monotonic() + REQUEST_TIMEOUT_MS / 1_000
    while wanted:
        try:
            return _ends(settings, wanted, committed, known)
        except StaleAnswer:
            if time.monotonic() > give_up_s:
                raise
        time.sleep(AGAIN_S)
    return {}


def _ends(
    settings: ClientSettings, wanted: Sequence[TopicPartition], committed: bool, known: KnownEpochs
) -> dict[TopicPartition, PartitionEnd]:
    first = views_of_ends(settings, wanted, committed=committed)
    views: dict[TopicPartition, dict[int, EndView]] = {key: {} for key in wanted}
    for broker, seen in _views_of_brokers(settings, first, committed):
        for key, view in seen.items():
            views[key][broker] = view
    found = {key: _newest(first[key], views[key]) for key in wanted}
    for key, end in found.items():
        known.check(key, end)
    return found


def _views_of_brokers(
    settings: ClientSettings, first: Mapping[TopicPartition, EndView], committed: bool
) -> list[tuple[int, Mapping[TopicPartition, EndView]]]:
    """Return what each broker with a replica sees. A broker that does not answer is left out."""
    addresses: dict[int, str] = {}
    keys: dict[int, list[TopicPartition]] = {}
    for key, view in first.items():
        for broker, address in view.replicas.items() if len(view.replicas) > 1 else ():
            if address:
                addresses[broker] = address
                keys.setdefault(broker, []).append(key)
    if not addresses:
        return []

    def ask(broker: int) -> tuple[int, Mapping[TopicPartition, EndView]]:
        try:
            return broker, views_of_ends(settings, keys[broker], committed=committed, only=addresses[broker])
        except KafkaError as error:
            _log.debug("broker %d does not say where partitions end: %s", broker, error)
            return broker, {}

    with ThreadPoolExecutor(min(_AT_ONCE, len(addresses)), "newest ends") as pool:
        return list(pool.map(ask, addresses))


def _newest(first: EndView, views: Mapping[int, EndView]) -> PartitionEnd:
    """Return the newest of what brokers see; `first` was seen by any of them."""
    every: Sequence[EndView] = [first, *views.values()]
    votes = Counter(view.topic_id for view in views.values())
    topic_id = votes.most_common(1)[0][0] if votes else first.topic_id
    newest = max(
        (each for each in every if each.topic_id == topic_id), key=lambda each: (each.leader_epoch, each.offset)
    )
    has_all = len(newest.replicas) == 1 or newest.replicas.keys() <= views.keys()
    return PartitionEnd(newest.offset, newest.leader_epoch, topic_id, has_all)
