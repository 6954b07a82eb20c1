"""What user functions may get wrong in a topology: the error names the step, the key and what to return."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors import BuildError
from streamactors.codec import CodecError
from streamactors.kafka.errors import RecordError
from streamactors.kafka.state.topic_rows import TopicRows
from streamactors.testing import TopologyDriver
from streamactors.windows import KeyValueStore, Processor, Record, WindowedRecord
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.topology.topics import TopologyTopics


@pytest.mark.parametrize("answer", ["ab", "abc", None, ("a",), {"a": 1, "b": 2}])
def test_the_grouping_of_a_table_must_return_a_key_and_a_value(answer: Any) -> None:
    # A text of two letters was taken for a key and a value.
    driver = TopologyDriver(lambda topics: topics.table("t").group_by(lambda key, value: answer).count())
    with pytest.raises(OperatorFailed, match=r"the grouping of key 'k'.*return \(new key, new value\)"):
        driver.pipe("t", "k", "v", timestamp=1)


def test_a_foreign_key_of_a_type_without_bytes_names_the_row() -> None:
    driver = TopologyDriver(
        lambda topics: topics.table("items").join_foreign_key(topics.table("people"), lambda key, item: {1}, max)
    )
    with pytest.raises(OperatorFailed, match=r"the foreign key of key 'i' raised CodecError: a builtins.set cannot be"):
        driver.pipe("items", "i", "x", timestamp=1)


def test_quantiles_refuse_what_is_not_a_number() -> None:
    # The sketch ignores it, and an empty sketch has no quantile: the step behind failed with an error of the library.
    driver = TopologyDriver(lambda topics: topics.stream("s").group_by_key().quantiles(0.5))
    with pytest.raises(OperatorFailed, match="quantiles: a value is nan, which has no rank"):
        driver.pipe("s", "k", float("nan"), timestamp=1)


def test_a_value_that_no_changelog_can_hold_names_its_store_and_key() -> None:
    class Keeps(Processor):
        def init(self, context: Any) -> None:
            self.kept = context.store("kept")

        def process(self, record: Any) -> None:
            self.kept.put(record.key, {1, 2})

    driver = TopologyDriver(lambda topics: topics.stream("s").process(Keeps, stores=[KeyValueStore("kept")]))
    driver.pipe("s", "ada", None, timestamp=1)
    with pytest.raises(CodecError, match=r"store kept, key b'ada': a builtins.set cannot be encoded"):
        driver.changes()


def test_an_error_of_init_names_no_key() -> None:
    class Broken(Processor):
        def init(self, context: Any) -> None:
            raise ValueError("no database")

        def process(self, record: Any) -> None:
            """Is never called."""

    with pytest.raises(OperatorFailed, match=r"^step: init raised ValueError: no database"):
        TopologyDriver(lambda topics: topics.stream("s").process(Broken, name="step"))


def test_a_topic_that_is_read_twice_has_one_serde() -> None:
    # The second serde was ignored without a word.
    topics = TopologyTopics()
    topics.stream("orders", value="json")
    topics.table("orders")  # takes the serde of the stream
    topics.table("orders", value="json")
    with pytest.raises(
        BuildError, match=r"reads 'orders' already, with value='json'; .* give value='string' where it is named first"
    ):
        topics.table("orders", value="string")


def test_a_topic_that_is_written_twice_has_one_serde() -> None:
    # The second serde was ignored without a word.
    topics = TopologyTopics()
    stream = topics.stream("orders", value="json")
    stream.to("all", value="json")
    stream.filter(bool).to("all", value="json")
    with pytest.raises(
        BuildError, match=r"written to 'all' with key=None and value='json', this one with key=None and value='string'"
    ):
        stream.map_values(str).to("all", value="string")


@pytest.mark.parametrize(
    ("row", "key", "value", "said"),
    [
        (
            Record("ada", 1, 5),
            "string",
            "string",
            r"topic counts: the value cannot be serialised as string: .*; it is 1 \(int\): convert it",
        ),
        (
            Record(7, b"1", 5),
            "string",
            "bytes",
            r"topic counts: the key cannot be serialised as string: .*; it is 7 \(int\): .* give key=",
        ),
        (Record("ada", {1}, 5), "string", "json", r"the value cannot be serialised as json: .*; it is \{1\} \(set\)"),
        (WindowedRecord("ada", 0, 10, 1, 5), "string", "string", r"it is \(0, 10, 1\) \(tuple\)"),
    ],
)
def test_a_row_that_its_serde_cannot_write_is_named(row: Any, key: str, value: str, said: str) -> None:
    # "descriptor 'encode' for 'str' objects doesn't apply to a 'int' object"
    with pytest.raises(RecordError, match=said):
        TopicRows("to", "counts", key, value).write(row)
