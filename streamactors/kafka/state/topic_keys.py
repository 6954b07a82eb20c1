"""The bytes of the keys that a topology reads and writes again.

A key chooses its partition by its bytes. A repartition topic that is joined with a user's topic must give a key the bytes that the producers of
that topic give it, or the rows of the key meet in no task. So a key that was read from such a topic must come out of its serde as it went in.
For a serde that has two forms of one value this is checked at each key, and before the run at one key of the topic, because a run that
continues others may read no key there. "integer" reads 4 and 8 bytes and writes what the topic has.

A key that goes straight from a topic to another keeps its bytes, in the context of its row.

Owner: one run. The source's island reads, the sink's island writes: each field is written once, and a `Width` only learns."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from streamactors.kafka.errors import RecordError
from streamactors.kafka.serdes.serdes import EXACT, INTEGER, Serde, reading_serde, serde_of
from streamactors.windows.record import RecordContext
from streamactors.windows.topology.model import SourceNode, Topology, above
from streamactors.windows.topology.nodes.processor_nodes import ProcessorNode
from streamactors.windows.topology.nodes.record_nodes import SinkNode

DEFAULT_KEY: Final = "string"
_INTERNAL: Final = "msgpack"
_log: Final = logging.getLogger("streamactors.kafka")


class ReadContext(RecordContext):
    """The context of a row whose key its serde writes in another way than its producer. `raw_key`: the bytes of the key."""

    raw_key: bytes


class Width:
    """Number of bytes of the integer keys of topics whose rows meet. None: none of their keys has been seen."""

    def __init__(self) -> None:
        self._size: int | None = None
        self._seen = ("", b"")
        self._written: tuple[str, bytes] | None = None
        self._warned = False

    def read(self, topic: str, raw: bytes) -> int:
        """Return the key of a user's topic. Raises RecordError if keys of another width were seen or written before."""
        key = INTEGER.deserialize(raw)
        if len(raw) != self._size:
            if self._size is not None:
                raise _differs(topic, key, raw, *self._seen)
            if self._written is not None and len(raw) != len(self._written[1]):
                raise _differs(topic, key, raw, *self._written)
            self._seen = (topic, raw)
            self._size = len(raw)
        return int(key)

    def look(self, raw: bytes) -> int:
        """Return a key of a topic whose rows meet no others; its first key gives the width."""
        if self._size is None:
            self._size = len(raw)
        return int(INTEGER.deserialize(raw))

    def read_back(self, topic: str, raw: bytes) -> int:
        """Return the key of a repartition topic, which an instance may have written before it knew the width."""
        if self._size is not None and len(raw) != self._size and not self._warned:
            self._warned = True
            _log.warning(
                "repartition topic %s: rows have keys of %d bytes, %s has keys of %d: these rows lie in other partitions and meet none of its rows; "
                "give the topic key='int32' or 'int64'",
                topic,
                len(raw),
                self._seen[0],
                self._size,
            )
        return int(INTEGER.deserialize(raw))

    def write(self, topic: str, key: int) -> bytes:
        """Return the bytes of a key: as many as the keys that were read have, or 8."""
        size = self._size
        if size is not None:
            return key.to_bytes(size, "big", signed=True)
        raw = key.to_bytes(8, "big", signed=True)
        if self._written is None:
            self._written = (topic, raw)
        return raw


class TopicKeys:
    """How the keys of a topology's topics are read and written."""

    def __init__(self, topology: Topology) -> None:
        self._users = {topic: source for topic, source in topology.sources.items() if not source.internal}
        self._serdes = {
            topic: reading_serde(f"{topic}: key", DEFAULT_KEY if source.key is None else source.key).for_topic(
                topic, is_key=True
            )
            for topic, source in self._users.items()
        }
        self._anchors = {topic: _anchor(topology, topic) for topic in topology.sources.keys() - self._users.keys()}
        self._widths: dict[str, Width] = {}
        self._meeting: set[str] = set()  # the topics whose rows meet those of another topic
        for _, topics in topology.co_partitioned:
            if len(topics) > 1:
                self._meeting |= topics
            width = next((self._widths[topic] for topic in topics if topic in self._widths), Width())
            self._widths |= dict.fromkeys(topics, width)
        self._strict: dict[str, str] = {
            user: f"the repartition topic {topic}" for topic, user in self._anchors.items() if user is not None
        }
        self._kept: dict[str, str] = {}
        self._above: dict[SinkNode, list[str]] = {}
        for sink in topology.nodes:
            if isinstance(sink, SinkNode) and not sink.key_changed:
                self._look_above(sink)

    def _look_above(self, sink: SinkNode) -> None:
        """Note which topics give a sink the keys that they have, and whether directly or through a state, which holds keys as values."""
        nodes = list(above(sink))
        self._above[sink] = [each.topic for each in nodes if isinstance(each, SourceNode)]
        for topic in self._users.keys() & self._above[sink]:
            serde = self._serdes[topic]
            if serde in EXACT or _written_by(sink) in EXACT:
                continue
            keeps = any(each.store is not None or isinstance(each, ProcessorNode) for each in nodes)
            if keeps and serde is not INTEGER:
                self._strict.setdefault(topic, f"the topic {sink.topic}")
            else:
                self._kept[topic] = sink.topic
                if serde is INTEGER:
                    self._widths.setdefault(topic, Width())

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────

    def reader(self, topic: str) -> Callable[[bytes], Any]:
        """Return the function from the bytes of a user's topic to a key. It raises RecordError for bytes that could not be written again."""
        serde = self._serdes[topic]
        width = self._widths.get(topic)
        if serde is INTEGER and width is not None:
            return partial(width.read, topic) if topic in self._meeting else width.look
        if serde in EXACT or topic not in self._strict:
            return serde.deserialize
        target, from_bytes, to_bytes, name = self._strict[topic], serde.deserialize, serde.serialize, serde.name

        def read(raw: bytes) -> Any:
            key = from_bytes(raw)
            again = to_bytes(key)
            if again != raw:
                raise _changed(topic, key, raw, again, name, target)
            return key

        return read

    def kept(self, topic: str) -> Callable[[Any], bytes] | None:
        """Return the function that writes a key, if rows of a topic go to another one with keys that must keep their bytes, else None."""
        return self._serdes[topic].serialize if topic in self._kept and topic not in self._strict else None

    @property
    def asked(self) -> list[str]:
        """The topics of which one key should be seen before the run begins."""
        return sorted(
            topic
            for topic, serde in self._serdes.items()
            if (topic in self._strict and serde not in EXACT) or (serde is INTEGER and topic in self._widths)
        )

    def see(self, topic: str, raw: bytes) -> None:
        """Look at one key of a topic before the run begins. Raises RecordError as the topic's reader does."""
        self.reader(topic)(raw)

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────

    def of_repartition(self, topic: str) -> Any:
        """Return the serde of the keys of a repartition topic."""
        anchor = self._anchors[topic]
        if anchor is None:
            return _INTERNAL
        source = self._users[anchor]
        if self._serdes[anchor] is not INTEGER:
            return DEFAULT_KEY if source.key is None else source.key
        width = self._widths[topic]
        return Serde("integer", lambda key: width.write(topic, key), lambda raw: width.read_back(topic, raw))

    def of_sink(self, sink: SinkNode) -> Any:
        """Return the serde of the keys of a topic that is written."""
        if _written_by(sink) is not INTEGER:
            return DEFAULT_KEY if sink.key is None else sink.key
        widths = [self._widths[topic] for topic in self._above.get(sink, ()) if topic in self._widths]
        width = widths[0] if widths else Width()
        return Serde("integer", lambda key: width.write(sink.topic, key), INTEGER.deserialize)


def _written_by(sink: SinkNode) -> Serde:
    return serde_of("to: key", DEFAULT_KEY if sink.key is None else sink.key)


def _anchor(topology: Topology, topic: str) -> str | None:
    """Return the user's topic that a repartition topic is joined with, if there is one."""
    for _, topics in topology.co_partitioned:
        if topic in topics:
            for each in sorted(topics):
                if not topology.sources[each].internal:
                    return each
    return None


def _differs(topic: str, key: Any, raw: bytes, other: str, seen: bytes) -> RecordError:
    return RecordError(
        f"topic {topic}: the key {key!r} has the {len(raw)} bytes {raw!r}, and {other} has keys of {len(seen)} bytes, for example {seen!r}: equal keys "
        "would lie in different partitions and never meet; give the topic key='int32' or 'int64', and bring topics of another width under new "
        "keys with select_key"
    )


def _changed(topic: str, key: Any, raw: bytes, again: bytes, serde: str, target: str) -> RecordError:
    return RecordError(
        f"topic {topic}: the key {key!r:.80} has the bytes {raw[:80]!r}, and the serde {serde!r} writes it as {again[:80]!r}: in {target} it would be another "
        "key, in another partition; give key= a serde that writes keys as their producer does: 'int32', 'int64', 'json' (compact), "
        "'canonical-json', or Serde.of(serialize, deserialize)"
    )
