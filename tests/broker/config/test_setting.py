"""Values are parsed, checked and complained about as Apache Kafka does it."""

from __future__ import annotations

import pytest

from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.config.topic_settings import TopicSettings

DECLARED = TopicSettings.declared()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", " 5 ", 5),
        ("retention.ms", "-1", -1),
        ("flush.messages", "+5", 5),
        ("preallocate", "FALSE", False),
        ("cleanup.policy", "compact, delete", ("compact", "delete")),
        ("cleanup.policy", "", ()),
        ("min.cleanable.dirty.ratio", "1e-1", 0.1),
        ("compression.gzip.level", "-1", -1),
    ],
)
def test_a_value_is_read_as_java_reads_it(name: str, text: str, value: object) -> None:
    assert DECLARED[name].parse(text) == value


@pytest.mark.parametrize(  # answers of Apache Kafka 4.1.1
    ("name", "text", "complaint"),
    [
        ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("segment.bytes", "99999999999", "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT"),
        ("flush.ms", "1e3", "Invalid value 1e3 for configuration flush.ms: Not a number of type LONG"),
        ("flush.messages", "1_000", "Invalid value 1_000 for configuration flush.messages: Not a number of type LONG"),
        ("flush.messages", "0x10", "Invalid value 0x10 for configuration flush.messages: Not a number of type LONG"),
        ("flush.ms", "9223372036854775808", "Invalid value 9223372036854775808 for configuration flush.ms: Not a number of type LONG"),
        ("preallocate", "yes", "Invalid value yes for configuration preallocate: Expected value to be either true or false"),
        ("min.cleanable.dirty.ratio", "1.5", "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "nan", "Invalid value nan for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"),
        ("cleanup.policy", "foo", "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete"),
        ("compression.gzip.level", "0", "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"),
        ("compression.type", "foo", "Invalid value foo for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
    ],
)  # fmt: skip
def test_a_complaint_has_kafkas_wording(name: str, text: str, complaint: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        DECLARED[name].parse(text)
    assert str(caught.value) == complaint
    assert caught.value.name == name


def test_a_feature_that_is_not_there_accepts_only_its_absence() -> None:
    assert DECLARED["remote.storage.enable"].parse("false") is False
    with pytest.raises(InvalidSetting, match="no tiered storage"):
        DECLARED["remote.storage.enable"].parse("true")


def test_every_default_passes_its_own_check() -> None:
    for setting in DECLARED.values():
        text = setting.format(setting.default)
        assert setting.parse(text) == setting.default
