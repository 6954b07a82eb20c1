"""PartitionBounds: where each partition of a consumer ends and where its reading begins, for the lag before the first record and while nothing is fetched.

A fetch brings the end of its partition, and librdkafka keeps it. A partition that is not fetched (paused, withheld, its buffer full, or assigned a
moment ago) is asked for, at most every STALE_S and only when somebody takes a snapshot. So is the timestamp of the oldest record of a partition of which
nothing is buffered, because it is paused or its records wait in librdkafka after those of others. A client and a thread of their own ask: on the
consumer's connection the request would wait for the fetch before it, and on its thread the records would wait for the answer.

Owner: the consumer actor; `ask` leaves its answers from another thread."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from streamactors.kafka.errors import KafkaError
from streamactors.kafka.reading.delivery import AssignedPartition
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition

_log = logging.getLogger("streamactors.kafka")

STALE_S: Final = 5.0
"""How long an end is taken as known while no fetch confirms it, and how long an answer is waited for before the next question."""
UNDATED_S: Final = 1.0
"""How long the records of a partition are expected to come by themselves before the first one is read for its timestamp."""
MOST_DATED: Final = 100
"""Partitions whose first record is read at once."""
DATES_S: Final = 2.0
"""How long these records are waited for."""
CLOSE_S: Final = 3.0


@dataclass(slots=True)
class Known:
    """What is known of one assignment."""

    epoch: int
    fetched_end: int | None = None
    """The end that the last fetch named."""
    end: int | None = None
    begin: int | None = None
    """Where reading begins; needed until a record has come."""
    fresh_s: float = -math.inf
    """When a fetch has confirmed the end last."""
    asked_s: float = -math.inf
    """When the end was asked for last."""
    begins: bool = False
    """Nothing of the partition has come, and it is not known where its reading begins."""
    undated_s: float | None = None
    """Since when the timestamp of the oldest record is missing; or when it was asked for last."""
    dated: tuple[int, int, int | None] | None = None
    """The answer: the offset that was asked for, the offset of the first record there, and its timestamp in ms."""

    def made_ms(self, offset: int) -> int | None:
        """Return the timestamp of the first record at or after an offset, if that was asked for."""
        found = self.dated
        return found[2] if found is not None and found[0] <= offset <= found[1] else None


class PartitionBounds:
    """Knows ends and begins. `clock_s`: a monotonic clock."""

    def __init__(self, settings: ConsumerSettings, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock_s = clock_s
        self._known: dict[TopicPartition, Known] = {}
        self._asking = False
        self._told = False  # that a question has failed; until one is answered
        self._thread: threading.Thread | None = None

    def close(self) -> None:
        """Wait for the answer that is on its way, for at most CLOSE_S: its client ends with the consumer. Any thread."""
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def known(self) -> dict[TopicPartition, Known]:
        """Return what is known; any thread."""
        return dict(self._known)

    def look(
        self,
        partitions: Mapping[TopicPartition, AssignedPartition],
        ends: Mapping[TopicPartition, int],
        withheld: Collection[TopicPartition] = (),
    ) -> tuple[dict[TopicPartition, Known], bool]:
        """Take the ends that fetches have named; return the partitions to ask for now, and whether one of them has no known lag yet.

        `withheld`: the source will say where these begin."""
        now_s = self._clock_s()
        known = self._known
        now_known: dict[TopicPartition, Known] = {}
        due: dict[TopicPartition, Known] = {}
        first = False
        for key, partition in partitions.items():
            each = known.get(key)
            if each is None or each.epoch != partition.epoch:
                each = Known(partition.epoch)
            now_known[key] = each
            end = ends.get(key)
            if end is not None and end != each.fetched_end:
                each.fetched_end = each.end = end
                each.fresh_s = now_s
            elif partition.at_end and not partition.paused:
                each.fresh_s = now_s  # a fetch waits at the end
            each.begins = each.begin is None and key not in withheld and not partition.has_come
            lacks = each.end is None or each.begins
            if now_s - (each.asked_s if lacks else max(each.asked_s, each.fresh_s)) >= STALE_S:
                due[key] = each
                first = first or (each.asked_s == -math.inf and lacks)
        self._known = now_known
        if self._asking:
            return {}, False
        for each in due.values():
            each.asked_s = now_s
        return due, first

    def undated(self, oldest: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the partitions whose first record to read for its timestamp. `oldest`: the partitions whose timestamp is missing, each with the offset of
        its oldest record that is not done."""
        now_s = self._clock_s()
        due: dict[TopicPartition, int] = {}
        for key, each in self._known.items():
            if key not in oldest:
                each.undated_s = None
            elif each.undated_s is None:
                each.undated_s = now_s + UNDATED_S - STALE_S
            elif now_s - each.undated_s >= STALE_S and len(due) < MOST_DATED and not self._asking:
                each.undated_s = now_s
                due[key] = oldest[key]
        return due

    def ask(
        self,
        due: Mapping[TopicPartition, Known],
        undated: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int | None],
        then: Callable[[], None],
    ) -> None:
        """Ask for the ends and the begins of the partitions in `due`, and for the timestamps of `undated`; call `then` when the answers are there, or the
        try has failed.

        `starts`: offsets that reading was told to begin at."""
        self._asking = True

        def asked() -> None:
            try:
                if due:
                    self._ask(due, starts)
                if undated:
                    self._date(undated)
                self._told = False
            except KafkaError as error:
                self._tell({*due, *undated}, error)
            finally:
                self._asking = False
                then()

        name = f"ends of consumer {self._settings.group_id or ''}".strip()
        self._thread = threading.Thread(target=asked, name=name, daemon=True)
        self._thread.start()

    def _tell(self, asked: Collection[TopicPartition], error: KafkaError) -> None:
        """Log that a question has failed: once at WARNING, then at DEBUG until one is answered."""
        level, self._told = logging.DEBUG if self._told else logging.WARNING, True
        names = sorted(map(str, asked))
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        _log.log(
            level,
            "group %s: the ends of %s%s are not known, so the lag of a partition that is not fetched may be missing or old (%s); they are asked for again every "
            "%.0f s while somebody looks; the consumer needs the right DESCRIBE of the topic and of the group, and a second connection to the broker",
            self._settings.group_id or "(none)",
            ", ".join(names[:3]),
            more,
            error,
            STALE_S,
        )

    def _ask(self, due: Mapping[TopicPartition, Known], starts: Mapping[TopicPartition, int | None]) -> None:
        from streamactors.kafka.client.admin import EARLIEST, LATEST, Admin

        group = self._settings.group_id
        committed_only = self._settings.client_properties().get("isolation.level") != "read_uncommitted"
        unknown = [key for key, each in due.items() if each.begins]
        with Admin(self._settings) as admin:
            begun = admin.committed(group, [key for key in unknown if starts.get(key) is None]) if group else {}
            firsts = admin.offsets(dict.fromkeys(unknown, EARLIEST), unknown_ok=True)
            ends = admin.offsets(dict.fromkeys(due, LATEST), committed=committed_only, unknown_ok=True)
        for key, end in ends.items():
            due[key].end = end
        for key in firsts.keys() & ends.keys():
            told = starts.get(key)
            told = {None: begun.get(key), EARLIEST: firsts[key], LATEST: ends[key]}.get(told, told)
            due[key].begin = self._begin(told, firsts[key], ends[key])

    def _date(self, undated: Mapping[TopicPartition, int]) -> None:
        from streamactors.kafka.client.offsets.first_records import FirstRecords

        known = {key: each for key in undated if (each := self._known.get(key)) is not None and each.end is not None}
        ends = {key: each.end for key, each in known.items() if each.end is not None}
        with FirstRecords(self._settings) as records:
            found = records.find({key: undated[key] for key in ends}, ends, DATES_S)
        for key, record in found.items():
            if record is not None:
                known[key].dated = (undated[key], record.offset, record.timestamp_ms)

    def _begin(self, told: int | None, first: int, end: int) -> int:
        """Return where reading begins: as told, or, where that does not exist, as `auto_offset_reset` says."""
        if told is not None and first <= told <= end:
            return told
        return first if self._settings.auto_offset_reset == "earliest" else end
