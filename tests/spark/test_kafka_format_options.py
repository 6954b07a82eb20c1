"""What the options of streamactors-kafka mean, and what is refused."""

from __future__ import annotations

import pytest

from streamactors.errors import BuildError
from streamactors.kafka import TopicPartition
from streamactors.spark.kafka_format.bounds import Times
from streamactors.spark.kafka_format.columns import check_columns
from streamactors.spark.kafka_format.options import read_options, stream_options, write_options

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def test_options_have_the_names_of_sparks_own_source() -> None:
    found = read_options(
        {
            **SERVERS,
            "kafka.security.protocol": "SSL",
            "subscribe": "a, b",
            "startingoffsets": '{"a": {"0": 5, "1": -2}}',
            "maxoffsetspertrigger": "7",
            "failondataloss": "false",
        }
    )
    assert found.settings.bootstrap_servers == "127.0.0.1:9092"
    assert dict(found.settings.properties) == {"security.protocol": "SSL"}
    assert found.topics == ("a", "b")
    assert found.starting == {TopicPartition("a", 0): 5, TopicPartition("a", 1): -2}
    assert found.ending == "latest"
    assert (found.most, found.skip_lost, found.headers) == (7, True, False)
    assert read_options({**SERVERS, "assign": '{"t": [1, 0]}'}).partitions == (
        TopicPartition("t", 0),
        TopicPartition("t", 1),
    )
    assert read_options({**SERVERS, "subscribe": "b,a , b"}).topics == ("b", "a")
    assert read_options({**SERVERS, "assign": '{"t": [0, 0]}'}).partitions == (TopicPartition("t", 0),)
    assert write_options({**SERVERS, "topic": "t", "checkpointlocation": "x"}) == ("127.0.0.1:9092", {}, "t")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"subscribe": "t"}, "option kafka.bootstrap.servers is missing"),
        (SERVERS, r"give one of the options subscribe .*, subscribePattern .* and assign"),
        ({**SERVERS, "subscribe": "t", "subscribepattern": "t"}, "give one of the options"),
        (
            {**SERVERS, "subscribepattern": "t["},
            "option subscribePattern is not a regular expression of Python.*got 't",
        ),
        ({**SERVERS, "subscribepattern": ""}, "option subscribePattern is empty"),
        ({**SERVERS, "subscribe": "t", "assign": "{}"}, "give one of the options"),
        ({**SERVERS, "subscribe": " , "}, "option subscribe has no topic"),
        (
            {**SERVERS, "subscribe": "t", "startingoffset": "earliest"},
            "no option startingoffset here; did you mean startingOffsets",
        ),
        (
            {**SERVERS, "subscribe": "t", "groupid": "g"},
            "no option groupid here; its options are subscribe, subscribePattern, assign, startingOffsets, startingTimestamp, "
            "startingOffsetsByTimestamp, startingOffsetsByTimestampStrategy, endingOffsets, endingTimestamp, "
            "endingOffsetsByTimestamp, maxOffsetsPerTrigger, minPartitions, failOnDataLoss, includeHeaders and kafka.NAME",
        ),
        (
            {**SERVERS, "subscribe": "t", "groupidprefix": "g"},
            "no option groupIdPrefix: a read has no group: its positions",
        ),
        ({**SERVERS, "subscribe": "t", "kafka.group.id": "g"}, r"no option kafka\.group\.id: a read has no group"),
        ({**SERVERS, "subscribe": "t", "kafka.auto.offset.reset": "earliest"}, "reset: give startingOffsets"),
        ({**SERVERS, "subscribe": "t", "kafka.enable.auto.commit": "true"}, "commit: a read commits nothing"),
        (
            {**SERVERS, "subscribe": "t", "minoffsetspertrigger": "9"},
            r'minOffsetsPerTrigger: .*processingTime="1 minute"',
        ),
        ({**SERVERS, "subscribe": "t", "maxtriggerdelay": "5m"}, "maxTriggerDelay: it belongs to minOffsetsPerTrigger"),
        ({**SERVERS, "subscribe": "t", "maxrecordsperpartition": "9"}, "maxRecordsPerPartition: give minPartitions"),
        ({**SERVERS, "subscribe": "t", "minpartitions": "0"}, "option minPartitions must be a number of at least 1"),
        (
            {**SERVERS, "subscribe": "t", "startingtimestamp": "yesterday"},
            "option startingTimestamp must be a time in ms since 1970, got 'yesterday'",
        ),
        (
            {**SERVERS, "subscribe": "t", "startingoffsetsbytimestamp": '{"t": 5}'},
            "option startingOffsetsByTimestamp has the form .*1700000000000",
        ),
        (
            {**SERVERS, "subscribe": "t", "endingoffsetsbytimestamp": '{"t": {"0": -1}}'},
            "option endingOffsetsByTimestamp has -1 for t-0; give a time in ms since 1970",
        ),
        (
            {**SERVERS, "subscribe": "t", "startingoffsetsbytimestampstrategy": "first"},
            "option startingOffsetsByTimestampStrategy must be error or latest, got 'first'",
        ),
        (
            {**SERVERS, "subscribe": "t", "startingoffsets": "first"},
            r"option startingOffsets has the form .*, got 'first'",
        ),
        ({**SERVERS, "subscribe": "t", "startingoffsets": '{"t": 5}'}, "option startingOffsets has the form"),
        (
            {**SERVERS, "subscribe": "t", "startingoffsets": '{"t": {"0": -3}}'},
            r"option startingOffsets has -3 for t-0; give an offset, -2 \(the earliest\) or -1 \(the latest\)",
        ),
        (
            {**SERVERS, "subscribe": "t", "endingoffsets": "earliest"},
            "option endingOffsets cannot be the earliest.*got 'earliest'",
        ),
        (
            {**SERVERS, "subscribe": "t", "endingoffsets": '{"t": {"0": -2}}'},
            "option endingOffsets cannot be the earliest",
        ),
        ({**SERVERS, "assign": '{"t": ["x"]}'}, r"option assign has the form .*0, 1"),
        (
            {**SERVERS, "subscribe": "t", "maxoffsetspertrigger": "0"},
            "option maxOffsetsPerTrigger must be a number of at least 1",
        ),
        (
            {**SERVERS, "subscribe": "t", "failondataloss": "no"},
            "option failOnDataLoss must be true or false, got 'no'",
        ),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], error: str) -> None:
    with pytest.raises(BuildError, match=error):
        read_options(options)


def test_a_start_by_time_counts_before_one_by_offset_as_in_sparks_own_source() -> None:
    given = {**SERVERS, "subscribepattern": "t.*", "startingoffsets": "earliest", "minpartitions": "8"}
    found = read_options(given)
    assert (found.pattern, found.topics, found.tasks, found.starting) == ("t.*", (), 8, "earliest")
    given["startingoffsetsbytimestamp"] = '{"t": {"0": 7}}'
    assert read_options(given).starting == Times("startingOffsetsByTimestamp", {TopicPartition("t", 0): 7}, False)
    given |= {"startingtimestamp": "9", "startingoffsetsbytimestampstrategy": "latest", "endingtimestamp": "12"}
    assert read_options(given).starting == Times("startingTimestamp", 9, True)
    assert read_options(given).ending == Times("endingTimestamp", 12, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("endingOffsets", "latest"), ("endingTimestamp", "5"), ("endingOffsetsByTimestamp", '{"t": {"0": 5}}')],
)
def test_a_stream_has_no_end_that_is_given(name: str, value: str) -> None:
    given = {**SERVERS, "subscribe": "t", name.lower(): value}
    assert read_options(given).ending
    with pytest.raises(BuildError, match=rf"option {name} is for spark.read.*trigger\(availableNow=True\)"):
        stream_options(given)


@pytest.mark.parametrize(
    ("columns", "topic", "error"),
    [
        (["key"], "t", "writes a column value, and the rows have key"),
        (["value", "n"], "t", "the rows have n; select what to write"),
        (["value"], None, "say where to write"),
    ],
)
def test_columns_that_cannot_be_written_are_named(columns: list[str], topic: str | None, error: str) -> None:
    with pytest.raises(BuildError, match=error):
        check_columns(columns, topic)
