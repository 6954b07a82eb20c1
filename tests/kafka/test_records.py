"""Consumer.records: deserialised records with their context, dead letters, lifecycle signals in band."""

from __future__ import annotations

import pytest

from streamactors import Keep, Sink
from streamactors.engine.marks.marks import Assigned, EndOfInput, Idle
from streamactors.engine.sink import SinkLogic
from streamactors.engine.stage import SINK, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import BuildError
from streamactors.kafka import Consumer, Serde, Subscriptions
from streamactors.kafka.serdes.serdes import SERDES
from streamactors.windows import Record


def test_keys_values_and_times_are_read_with_their_context(settings, system, topic_with):
    topic = topic_with("json", [b'{"at": 5}', b'{"at": 6}'])
    source = Consumer.records(
        settings, Subscriptions.topics(topic), value="json", timestamp=lambda record: record.value["at"], until="end"
    )
    first, second = source.run_with(Sink.to_list(), system).result(30)
    assert (first, second) == (Record(None, {"at": 5}, 5), Record(None, {"at": 6}, 6))
    assert (second.context.topic, second.context.partition, second.context.offset) == (topic, 0, 1)


def test_assigned_partitions_are_read_without_a_group_and_nothing_is_committed(settings, system, topic_with):
    """There was no way to read typed records without a group: the source needed one although it was told its partitions."""
    topic = topic_with("assigned", [b"1", b"2"])
    source = Consumer.records(
        settings.with_group_id(None), Subscriptions.assignment((topic, 0)), value="json", until="end"
    )
    for _ in range(2):
        assert source.map(lambda record: record.value).run_with(Sink.to_list(), system).result(30) == [1, 2]
    with pytest.raises(BuildError, match="key_by needs a group_id"):
        source.key_by(lambda record: record.value).count().to_stream().run_with(Sink.to_list(), system)


def test_a_record_that_cannot_be_read_fails_the_stream_with_its_own_error(settings, system, topic_with):
    topic = topic_with("poison", [b"1", b"{"])
    source = Consumer.records(settings, Subscriptions.topics(topic), value="json", until="end")
    error = source.run_with(Sink.to_list(), system).exception(30)
    assert isinstance(error, ValueError)


def test_a_record_that_is_not_json_is_named_with_the_ways_to_go_on(settings, system, topic_with):
    """The error was "Expecting value: line 1 column 1 (char 0)", and nothing in it said which record."""
    topic = topic_with("bad", [b"1", b"{"])
    source = Consumer.records(settings, Subscriptions.topics(topic), value="json", until="end")
    with pytest.raises(
        ValueError, match=r"bad-0@1: the value is not JSON; give dead_letters= or errors='emit' .*: Exp"
    ) as failed:
        source.run_with(Sink.to_list(), system).result(30)
    assert type(failed.value).__name__ == "JSONDecodeError"
    assert "json/decoder.py" not in "".join(failed.value.__notes__)
    keyed = Consumer.records(settings.with_group_id("k"), Subscriptions.topics(topic), key="json", until="end")
    assert keyed.run_with(Sink.count(), system).result(30) == 2, "a missing key is none"


def test_a_dead_letter_keeps_the_record_and_says_where_and_why(
    cluster, settings, system, topic_with, committed, read_all
):
    topic = topic_with("mixed", [b"1", b"{", b"3"])
    cluster.create_topic("dead", partitions=1)
    source = Consumer.records(
        settings, Subscriptions.topics(topic), value="json", dead_letters="dead", until="end"
    ).map(lambda record: record.value)
    control, values = source.to_mat(Sink.to_list(), Keep.both).run(system)
    assert values.result(30) == [1, 3]
    control.is_shutdown.result(30)
    assert committed(topic) == {0: 3}
    (letter,) = read_all("dead")
    assert letter.value() == b"{"
    headers = dict(letter.headers())
    assert (headers["dead-letter.topic"], headers["dead-letter.offset"]) == (topic.encode(), b"1")
    assert b"JSONDecodeError" in headers["dead-letter.error"]


@pytest.mark.expects_log("a stream has failed and nobody has read its result")
def test_a_record_is_not_committed_before_its_dead_letter_is_stored(settings, system, topic_with, committed):
    topic = topic_with("unburied", [b"{"] * 3)
    source = Consumer.records(settings, Subscriptions.topics(topic), value="json", dead_letters="x" * 300, until="end")
    control, _ = source.to_mat(Sink.ignore(), Keep.both).run(system)
    control.is_shutdown.exception(60)
    assert committed(topic) == {0: -1001}


@pytest.mark.parametrize("name", sorted(SERDES))
def test_a_serde_reads_what_it_wrote(name):
    values = {"bytes": b"\x00x", "string": "ä", "json": [1, {"a": None}], "msgpack": (1, b"x")}
    values |= {"canonical-json": [1.5, {"a": None}]} | dict.fromkeys(("integer", "int32", "int64"), -5)
    value = values[name]
    serde = SERDES[name]
    assert serde.deserialize(serde.serialize(value)) == value
    assert Serde.of(serde.serialize, serde.deserialize).name == "custom"


def test_what_is_no_serde_is_named(settings):
    with pytest.raises(BuildError, match=r"value must be a Serde.*'yaml'"):
        Consumer.records(settings, Subscriptions.topics("x"), value="yaml")
    with pytest.raises(BuildError, match="dead_letters must be"):
        Consumer.records(settings, Subscriptions.topics("x"), dead_letters=7)


class Signals(GraphStage):
    """A sink that notes the signals that reach it."""

    shape = SINK
    traits = StageTraits(reads_marks=True)

    def __init__(self):
        self.seen = []

    def create(self, attributes):
        seen = self.seen

        class Logic(SinkLogic):
            def on_mark(self, in_, mark):
                if not isinstance(mark, dict):
                    seen.append(mark)
                super().on_mark(in_, mark)

        logic = Logic()
        return logic, logic.future


def test_K_3_a_bounded_read_signals_assigned_and_end_of_input(settings, system, topic_with):
    topic = topic_with("signals", [b"1"], 2)
    signals = Signals()
    Consumer.records(settings, Subscriptions.topics(topic), until="end").run_with(
        Sink.from_stage(signals), system
    ).result(30)
    kinds = [type(signal) for signal in signals.seen if not isinstance(signal, Idle)]
    assert kinds == [Assigned, Assigned, EndOfInput, EndOfInput]


def test_K_3_an_idle_partition_says_so_while_there_is_demand(settings, system, topic_with, wait_for):
    topic = topic_with("idle", [b"1"])
    signals = Signals()
    control, _ = (
        Consumer.records(settings, Subscriptions.topics(topic)).to_mat(Sink.from_stage(signals), Keep.both).run(system)
    )
    wait_for(lambda: any(isinstance(signal, Idle) and signal.silent_ms > 0 for signal in signals.seen))
    control.shutdown().result(30)
    assert not any(isinstance(signal, EndOfInput) for signal in signals.seen), "a stop is not the end of the input"
