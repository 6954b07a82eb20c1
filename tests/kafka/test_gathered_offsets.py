"""A Committer behind the steps of a source gets the offsets of a chunk as one element: as if each message had come to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors import Keep, Sink
from streamactors.engine.attributes import Attributes
from streamactors.engine.fusing.loop import CAN_REFILL, FusedLoop, Op
from streamactors.errors import BuildError
from streamactors.kafka import Committer, CommitterSettings, Consumer, Subscriptions, TopicPartition
from streamactors.kafka.client.runs import made_message
from streamactors.kafka.committable import (
    GATHERING,
    CommittableOffsetBatch,
    GatheredOffsets,
    KeptMessage,
    Origin,
    PassingMessage,
)

pytestmark = pytest.mark.skipif(not CAN_REFILL, reason="references are not counted here")

PLACE = TopicPartition("t", 0)


class Tracker:
    def __init__(self):
        self.offsets = []

    def acknowledge(self, key, epoch, *runs):
        self.offsets += [(key, epoch, offset) for run in runs for offset in run]


def origin(epoch=1):
    return Origin(PLACE, epoch, Tracker(), lambda reply: None)


def message_at(offset):
    return made_message(PLACE, offset, b"key %d" % offset, b"%d" % offset, None)


def loop_of(*steps):
    return FusedLoop(tuple(Op(kind, fn, kind, Attributes()) for kind, fn in steps)).refilling(GATHERING)


def acknowledged(batch, here):
    """Return what the batch acknowledges of both assignments, in order."""
    here.tracker.offsets.clear()
    ELSEWHERE.tracker.offsets.clear()
    batch.acknowledge()
    return sorted(here.tracker.offsets), sorted(ELSEWHERE.tracker.offsets)


ELSEWHERE = origin(epoch=7)
RESULTS = {
    "the message": lambda m: m,
    "its offset": lambda m: m.offset,
    "nothing": lambda m: None,
    "a list": lambda m: [m.offset, m.offset],
    "a batch": lambda m: CommittableOffsetBatch().updated(m.offset),
    "an offset of another assignment": lambda m: KeptMessage((b"", message_at(3), ELSEWHERE)).offset,
}


@given(
    offsets=st.lists(st.integers(0, 60), min_size=1, max_size=40, unique=True).map(sorted),
    choices=st.lists(st.sampled_from([*RESULTS, "left out"]), min_size=60, max_size=61),
    cuts=st.lists(st.integers(1, 9), max_size=20),
)
def test_gathered_offsets_are_those_that_a_committer_finds_in_the_messages(offsets, choices, cuts):
    here = origin()

    def result(m):
        return RESULTS[choices[m.record.offset % 60]](m)

    def stays(m):
        return choices[m.record.offset % 60] != "left out"

    found = GatheredOffsets(here)
    assert loop_of(("filter", stays), ("map", result))(map(message_at, offsets), [], [], found) is None
    gathered = CommittableOffsetBatch()
    for cut in [*cuts, 100]:
        part, found = found.cut(cut)
        gathered.add_all(part)
    expected = CommittableOffsetBatch()
    kept = [KeptMessage((b"", message_at(offset), here)) for offset in offsets]
    expected.add_all([result(m) for m in kept if stays(m)])
    assert gathered.size == expected.size
    assert gathered.offsets() == expected.offsets()
    assert acknowledged(gathered, here) == acknowledged(expected, here)


def test_what_is_no_offset_is_refused_in_its_place():
    found = GatheredOffsets(origin())
    loop_of(("map", lambda m: m if m.record.offset < 3 else 17))(map(message_at, range(5)), [], [], found)
    batch = CommittableOffsetBatch()
    with pytest.raises(BuildError, match="got int"):
        batch.add_all(found)
    assert batch.offsets() == {PLACE: 3}, "those before it are in the batch"


HELD = {
    "the message": lambda m: m,
    "its record": lambda m: m.record,
    "its offset": lambda m: m.offset,
    "a function that uses it": lambda m: lambda: m,
}


@pytest.mark.parametrize("what", HELD)
def test_whoever_holds_a_part_of_a_message_holds_it_for_good(what):
    kept = []

    def look(m):
        if m.record.offset % 3 == 0:
            kept.append(HELD[what](m))
        return m

    found = GatheredOffsets(origin())
    loop_of(("map", look))(map(message_at, range(20)), [], [], found)
    assert found == list(range(20))
    for offset, held in zip(range(0, 20, 3), kept, strict=True):
        if what == "its offset":
            assert held.offset == offset
            continue
        message = held() if callable(held) else held
        record = message if what == "its record" else message.record
        assert (record.offset, record.value, record.key) == (offset, b"%d" % offset, b"key %d" % offset)
        assert what == "its record" or message.offset.offset == offset


def numbers(n):
    return [b"%d" % i for i in range(n)]


SINKS = {
    "a committer": (lambda: Committer.sink(CommitterSettings(max_batch=70)), {PassingMessage}),
    "a committer with a function of the user": (lambda: Committer.sink(offset=lambda m: m.offset), {KeptMessage}),
    "another sink": (Sink.to_list, {KeptMessage}),
}


@pytest.mark.parametrize("sink", SINKS)
def test_only_steps_before_a_committer_see_messages_that_are_filled_again(
    settings, system, topic_with, committed, sink
):
    topic = topic_with(sink.replace(" ", "-"), numbers(2_000), partitions=2)
    kinds = set()

    def even(m):
        kinds.add(type(m))
        return m.record.offset % 2 == 0

    make, expected = SINKS[sink]
    source = Consumer.committable_source(settings, Subscriptions.topics(topic), until="end").filter(even)
    control, done = source.to_mat(make(), Keep.both).run(system)
    done.result(30)
    control.is_shutdown.result(30)
    assert kinds == expected
    if sink != "another sink":
        assert committed(topic, 2) == {0: 1_000, 1: 1_000}, "what was filtered counts as done"


@pytest.mark.parametrize(("max_batch", "parallelism"), [(1, 1), (7, 2), (5_000, 1)])
def test_batches_have_their_size_however_long_the_chunks_are(
    settings, system, topic_with, committed, max_batch, parallelism
):
    n = 300 if max_batch == 1 else 3_000
    topic = topic_with(f"sizes-{max_batch}", numbers(n))
    flow = Committer.flow(CommitterSettings(max_batch=max_batch, parallelism=parallelism, max_interval_ms=60_000))
    source = Consumer.committable_source(settings, Subscriptions.topics(topic), until="end").map(lambda m: m.offset)
    control, found = source.via(flow).to_mat(Sink.to_list(), Keep.both).run(system)
    batches = found.result(60)
    control.is_shutdown.result(30)
    assert sum(batch.size for batch in batches) == n
    assert {batch.size for batch in batches[:-1]} <= {max_batch}
    assert committed(topic) == {0: n}


def test_a_failing_step_commits_what_came_before_it(settings, system, topic_with, committed):
    topic = topic_with("fails-late", numbers(3_000))

    def check(m):
        if m.record.offset == 2_500:
            raise ValueError("2500")
        return m

    settled = CommitterSettings(max_batch=100, max_interval_ms=60_000, parallelism=1_000)
    source = Consumer.committable_source(settings, Subscriptions.topics(topic)).map(check)
    control, done = source.to_mat(Committer.sink(settled), Keep.both).run(system)
    assert isinstance(done.exception(30), ValueError)
    control.is_shutdown.exception(30)
    assert committed(topic) == {0: 2_500}
