"""Taking a capsule: reads what a group of a real cluster has read, its offsets and its state. The group keeps running, and nothing is written."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamactors.kafka.client.admin import Admin
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.simulation.capture.capsule import Capsule, CapturedRecord, GraphIdentity, Kind, Slice
from streamactors.simulation.capture.limiting import Limits, NewestByKey, Spans
from streamactors.simulation.capture.ranges import Ranges, ranges_of
from streamactors.simulation.capture.reading import read_ranges
from streamactors.simulation.capture.redacting import Redact, redacted

if TYPE_CHECKING:
    from streamactors.kafka.settings import ClientSettings

_INTERNAL = (Kind.CHANGELOG, Kind.REPARTITION)


def capture(
    settings: ClientSettings,
    group: str,
    *,
    since_ms: int,
    topics: Iterable[str] = (),
    named: Iterable[str] = (),
    committed_only: bool = True,
    limits: Limits | None = None,
    redact: Redact | None = None,
    keep_state: bool | None = None,
    graph: GraphIdentity | None = None,
) -> Capsule:
    """Return a capsule of a group: the records from `since_ms` (ms since 1970) to now, its offsets and its state.

    `topics`: read beside those that the group has offsets of. `named`: the graph writes them; their settings are kept. `committed_only`: as the
    group reads. `redact` changes each record; state is then left out, because it is not made of records, unless `keep_state`.
    Raises CaptureError, RedactionFailed, TopicNotFound, KafkaError."""
    state = keep_state if keep_state is not None else redact is None
    with Admin(settings) as admin:
        cluster = admin.cluster_id() or ""
        found = ranges_of(admin, group, tuple(topics), named, since_ms, committed_only=committed_only)
    if not state and (left := [t.name for t in found.topics.values() if t.kind in _INTERNAL]):
        why = "a redacting function cannot see into state" if redact is not None else "as asked"
        found.notes.append(f"the state is left out: {why} ({', '.join(sorted(left))})")
        for name in left:
            found.topics[name] = replace(found.topics[name], kind=Kind.OTHER)
    taking = _Taking(found, limits or Limits())
    for isolated in (True, False):
        taking.read(settings, committed_only=isolated or committed_only, internal=isolated)
    slices = taking.slices()
    name = "" if redact is None else f"{getattr(redact, '__module__', '')}:{getattr(redact, '__qualname__', 'redact')}"
    if redact is not None:
        slices = [
            each if found.topics[each.topic].kind in _INTERNAL
            else replace(each, records=redacted(each.records, redact, name))
            for each in slices
        ]  # fmt: skip
    return Capsule(
        group, cluster, int(time.time() * 1_000), since_ms, committed_only, tuple(found.topics.values()), tuple(slices),
        graph, name, tuple(found.notes),
    )  # fmt: skip


class _Taking:
    """The captured records of the topics, within the limits."""

    def __init__(self, found: Ranges, limits: Limits) -> None:
        self._found = found
        self._limits = limits
        self._spans = Spans(limits)
        self._newest: dict[TopicPartition, NewestByKey] = {}
        self._bytes: dict[str, int] = {}
        self._too_large: set[str] = set()
        for key, each in found.partitions.items():
            if self._kind(key) in (Kind.CHANGELOG, Kind.TABLE):
                self._newest[key] = NewestByKey(each.begin, after=self._kind(key) is Kind.CHANGELOG)

    def _kind(self, key: TopicPartition) -> Kind:
        return self._found.topics[key.topic].kind

    def read(self, settings: ClientSettings, *, committed_only: bool, internal: bool) -> None:
        """Read the group's own topics, or those that it reads."""
        ranges = {
            key: (each.log_start if key in self._newest else each.begin, each.end)
            for key, each in self._found.partitions.items()
            if self._kind(key) is not Kind.OTHER and (self._kind(key) in _INTERNAL) is internal
        }
        read_ranges(settings, ranges, self._take, committed_only=committed_only)

    def _take(self, key: TopicPartition, record: CapturedRecord) -> None:
        newest = self._newest.get(key)
        if newest is None or (record.offset >= newest.begin and not newest.after):
            self._spans.add(key, record)
        elif key.topic not in self._too_large:
            self._bytes[key.topic] = self._bytes.get(key.topic, 0) + newest.add(record)
            if self._bytes[key.topic] > self._limits.bytes:
                self._too_large.add(key.topic)
                for other, kept in self._newest.items():
                    if other.topic == key.topic:
                        kept.before.clear()
                        kept.since.clear()

    def slices(self) -> list[Slice]:
        """Return what is kept, and note what is not."""
        self._tell()
        slices = []
        for key, each in self._found.partitions.items():
            newest = self._newest.get(key)
            span = self._spans.of(key)
            records = (*(newest.records if newest is not None else ()), *span)
            begin = each.begin
            if key in self._spans.cut:
                begin = span[0].offset if span else each.end
            slices.append(Slice(*key, begin, max(begin, each.end), each.log_start, each.committed, records))
        return slices

    def _tell(self) -> None:
        notes, limits = self._found.notes, self._limits
        for key, count in sorted(self._spans.cut.items()):
            rest = self._spans.of(key)
            where = f"the span begins at offset {rest[0].offset}" if rest else "nothing of it is left"
            notes.append(
                f"{key}: the first {count:,} records are left out, because of the limits of {limits.bytes:,} bytes and "
                f"{limits.records:,} records; {where}"
            )
        for name in sorted(self._too_large):
            notes.append(f"{name} is left out: it takes more than {limits.bytes:,} bytes")
        changed: dict[str, list[Any]] = {}
        for key, kept in self._newest.items():
            if kept.after:
                changed.setdefault(key.topic, []).append(kept)
        for name, parts in sorted(changed.items()):
            new = sum(len(part.since.keys() - part.before.keys()) for part in parts)
            keys = sum(len(part.since.keys() | part.before.keys()) for part in parts)
            if new:
                notes.append(
                    f"{name}: {new:,} of {keys:,} keys have entries of the span only: they are new, or compaction has removed the earlier ones"
                )
