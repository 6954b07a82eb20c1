"""The lane: whatever is asked and delivered in whatever pieces, every record goes out once, in order, within demand, with a mark behind it."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Message

from streamactors.engine.attributes import NONE
from streamactors.engine.fusing.loop import FusedLoop, Op
from streamactors.engine.marks.marks import EndOfInput, Idle
from streamactors.kafka.reading.delivery import Delivery
from streamactors.kafka.reading.feed import Feed
from streamactors.kafka.reading.messages import CommitNow, Commits, RequestRecords
from streamactors.kafka.sources.consumer_link import ConsumerLink
from streamactors.kafka.sources.lane import Lane
from streamactors.kafka.subscriptions import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
EPOCH = 7


class Out:
    """The outlet of a stage, as far as a lane uses it."""

    def __init__(self) -> None:
        self.asked = 0
        self.out_closed = False
        self.items: list[Any] = []

    def push(self, chunk):
        assert 0 < len(chunk) <= self.asked, "no push without demand"
        self.asked -= len(chunk)
        self.items += chunk

    def mark(self, mark):
        self.items.append(mark)

    def again(self):
        pass


class Stage:
    """A logic with a lane and nothing else. `posted`: what was posted to its island and has not run."""

    def __init__(self, *, commits=Commits.MARKS, loop=None, convert=None, max_chunk=None, ahead=64) -> None:
        self.out = Out()
        self.posted: list[Any] = []
        run = SimpleNamespace(
            system=SimpleNamespace(clock=SimpleNamespace(wall_ms=lambda: 99)),
            trace=None,
            only_traced=False,
            sampled=False,
        )
        self.interpreter: Any = SimpleNamespace(
            slice_no=0,
            in_slice=False,
            stop_slice=[],
            island=SimpleNamespace(run=run),
            post=lambda logic, handler, argument: self.posted.append((handler, argument)),
        )
        self.failure: BaseException | None = None
        self.told: list[Any] = []
        self.link = ConsumerLink(commits)
        self.link.started, self.link.tell = True, self.told.append
        if self.link.tracker is not None:
            self.link.tracker.assigned([A, B], EPOCH)
        self.feed = Feed(lambda _: None)
        self.lane = Lane(self, self.link, self.feed, convert, loop, max_chunk)
        self.lane.source = "s"
        self.ahead = ahead
        assert self.lane.begin()

    def fail_stage(self, error):
        self.failure = error
        self.out.out_closed = True

    def on_pull(self, out):
        self.lane.push()
        self.lane.ask(min(out.asked, self.ahead))

    def pull(self, n):
        self.out.asked += n
        self.on_pull(self.out)

    def deliver(self, key, start, n):
        messages = [
            Message(topic=key.topic, partition=key.partition, offset=o, value=b"%d" % o)
            for o in range(start, start + n)
        ]
        self.feed.put(Delivery(self.feed, key, EPOCH, messages, start + n))
        self.on_pull(self.out)

    def asked(self):
        return sum(message.n for message in self.told if type(message) is RequestRecords)

    def run_posted(self):
        posted, self.posted = self.posted, []
        for handler, argument in posted:
            handler(argument)

    def elements(self):
        return [item for item in self.out.items if type(item) is not dict and not isinstance(item, (Idle, EndOfInput))]

    def position(self, key):
        marks = [item for item in self.out.items if type(item) is dict and ("s", key) in item]
        return marks[-1]["s", key] if marks else None


def loop_of(fn):
    return FusedLoop((Op("map", fn, "map", NONE),))


def place(record):
    return record.partition, record.offset


@pytest.mark.parametrize(
    "kind",
    ["records", "converted", "steps", "steps that stop early", "converted steps", "at most once", "at most once steps"],
)
@pytest.mark.parametrize("seed", range(6))
def test_every_record_goes_out_once_in_order_with_a_mark_behind_it(kind, seed):
    rng = random.Random(seed)

    def step(element):
        if "early" in kind and rng.random() < 0.3:
            stage.interpreter.stop_slice.append(1)
        return element

    def convert(values, messages, origin):
        assert (origin.key, origin.epoch) in ((A, EPOCH), (B, EPOCH))
        return (SimpleNamespace(partition=m.partition(), offset=m.offset(), value=v) for v, m in zip(values, messages))  # noqa: B905

    stage = Stage(
        commits=Commits.BEFORE if "most" in kind else Commits.MARKS,
        loop=loop_of(step) if "steps" in kind else None,
        convert=convert if "converted" in kind else None,
        max_chunk=rng.choice([1, 3, None]),
    )
    positions = {A: 0, B: 0}
    delivered = 0
    for _ in range(400):
        if rng.random() < 0.5:
            stage.pull(rng.randint(0, 9))
        elif stage.asked() > delivered:
            n = rng.randint(1, min(12, stage.asked() - delivered))
            key = rng.choice([A, B])
            delivered += n
            stage.deliver(key, positions[key], n)
            positions[key] += n
        for message in [message for message in stage.told if type(message) is CommitNow]:
            stage.told.remove(message)
            message.reply.try_complete(None)
        stage.run_posted()
        if "most" not in kind:  # there a chunk that waits for its commit was taken and has not gone out
            assert stage.feed.asked == stage.asked() - len(stage.elements())
    for _ in range(500):
        stage.pull(5)
        for message in [message for message in stage.told if type(message) is CommitNow]:
            stage.told.remove(message)
            message.reply.try_complete(None)
        stage.run_posted()
    assert stage.lane.drained
    out = [place(element) for element in stage.elements()]
    assert len(out) == delivered > 50
    for number, key in enumerate((A, B)):
        assert [offset for p, offset in out if p == number] == list(range(positions[key]))
        if positions[key]:
            assert stage.position(key) == (EPOCH, positions[key])
            assert stage.link.tracker.snapshot()[key].delivered == positions[key]
    behind = {A: 0, B: 0}
    for item in stage.out.items:
        if type(item) is dict:
            (((_, key), (_, position)),) = item.items()
            assert position == behind[key], "a mark says exactly what went out before it"
        else:
            behind[TopicPartition("t", item.partition)] += 1


def test_demand_is_asked_once_and_again_when_half_of_it_is_used_up():
    stage = Stage(ahead=64)
    stage.pull(100)
    assert [message.n for message in stage.told] == [64]
    stage.deliver(A, 0, 31)
    assert len(stage.told) == 1
    stage.deliver(A, 31, 1)
    assert [message.n for message in stage.told] == [64, 32]
    assert stage.told[0].feed is stage.feed


def test_nothing_is_asked_before_the_consumer_has_started():
    stage = Stage()
    stage.link.started = False
    stage.pull(10)
    assert stage.told == []
    stage.link.started = True
    stage.on_pull(stage.out)
    assert [message.n for message in stage.told] == [10]


@pytest.mark.parametrize("steps", [False, True])
def test_records_of_a_partition_whose_revocation_has_begun_do_not_go_out(steps):
    stage = Stage(loop=loop_of(lambda record: record) if steps else None)
    stage.link.tracker.revoking([A])
    stage.out.asked = 100
    stage.deliver(A, 0, 10)
    stage.deliver(B, 0, 1)
    assert [place(record) for record in stage.elements()] == [(1, 0)]
    assert stage.position(A) is None


def test_a_failing_step_fails_the_stage_behind_what_it_has_made_and_no_mark_covers_it():
    def fragile(record):
        if record.offset == 5:
            raise ValueError("no 5")
        return record.offset

    stage = Stage(loop=loop_of(fragile))
    stage.out.asked = 1_000
    for start in range(0, 20, 10):
        stage.deliver(A, start, 10)
    for _ in range(20):
        stage.on_pull(stage.out)
    assert str(stage.failure) == "no 5"
    assert stage.elements() == [0, 1, 2, 3, 4]
    assert stage.position(A)[1] <= 5


def test_at_most_once_pushes_nothing_before_the_commit_and_fails_with_it():
    stage = Stage(commits=Commits.BEFORE, max_chunk=4)
    stage.out.asked = 100
    stage.deliver(A, 0, 10)
    (request,) = [message for message in stage.told if type(message) is CommitNow]
    assert stage.link.tracker.to_commit() == {A: 4}, "chunk by chunk"
    assert stage.elements() == []
    assert not stage.lane.drained
    stage.lane.mark_idle(A, 5)
    assert stage.out.items == [], "not idle: records follow"
    request.reply.try_complete(None)
    stage.run_posted()
    assert [record.offset for record in stage.elements()] == [0, 1, 2, 3]
    second = [message for message in stage.told if type(message) is CommitNow][1]
    second.reply.try_fail(ValueError("no coordinator"))
    stage.run_posted()
    assert str(stage.failure) == "no coordinator"
    assert len(stage.elements()) == 4


def test_a_partition_is_idle_only_with_demand_and_when_none_of_its_records_wait():
    stage = Stage()
    stage.lane.mark_idle(A, 5)
    assert stage.out.items == [], "nobody asks"
    stage.deliver(A, 0, 1)
    stage.out.asked = 1
    stage.lane.mark_idle(A, 5)
    stage.lane.mark_idle(B, 5)
    assert stage.out.items == [Idle(("s", B), 5, 99)]


def test_the_end_of_a_partition_is_said_only_while_it_is_assigned():
    stage = Stage()
    stage.link.tracker.revoking([A])
    stage.lane.mark_end(A, EPOCH, 3)
    stage.lane.mark_end(B, EPOCH, 4)
    assert stage.out.items == [{("s", B): (EPOCH, 4)}, EndOfInput(("s", B))]


def test_a_run_in_which_nobody_reads_marks_carries_none():
    stage = Stage(commits=Commits.NOBODY)
    stage.lane.source = None
    stage.out.asked = 9
    stage.deliver(A, 0, 3)
    stage.lane.mark_idle(A, 5)
    stage.lane.mark_end(A, EPOCH, 3)
    assert [record.offset for record in stage.out.items] == [0, 1, 2]
