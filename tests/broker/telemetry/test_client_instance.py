"""When a client may ask and push. The codes are those of Apache Kafka's ClientMetricsManager."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest

from streamactors.broker.config.client_metrics_settings import check_client_metrics
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.telemetry.client_instance import ClientInstance
from streamactors.broker.telemetry.subscriptions import Wanted, subscription_of, wanted_of

ID = uuid.UUID(int=(7 << 64) | 5)
WANTED = Wanted(99, ("*",), 1_000)


def client() -> ClientInstance:
    return ClientInstance(ID, {}, WANTED, 1)


def pushed(
    given: ClientInstance,
    now_ms: float,
    *,
    subscription: int = 99,
    compression: int = 0,
    size: int = 10,
    terminating: bool = False,
) -> ErrorCode:
    try:
        given.push(subscription, compression, size, 100, now_ms, terminating=terminating)
    except Refusal as refusal:
        return refusal.code
    return ErrorCode.NONE


def asked(given: ClientInstance, now_ms: float) -> ErrorCode:
    try:
        given.get(now_ms)
    except Refusal as refusal:
        return refusal.code
    return ErrorCode.NONE


def test_a_client_pushes_once_in_an_interval() -> None:
    one = client()
    assert asked(one, 0) == ErrorCode.NONE
    assert asked(one, 999) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert pushed(one, 999) == ErrorCode.NONE  # the first push after it has asked may come at any time
    assert pushed(one, 1_998) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert pushed(one, 1_999) == ErrorCode.NONE
    assert asked(one, 2_998) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert asked(one, 2_999) == ErrorCode.NONE


def test_a_client_with_an_old_subscription_asks_again_at_once() -> None:
    one = client()
    assert pushed(one, 0, subscription=98) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert asked(one, 1) == ErrorCode.NONE
    assert asked(one, 2) == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_the_last_push_comes_at_any_time_and_nothing_after_it() -> None:
    one = client()
    assert pushed(one, 0) == ErrorCode.NONE
    assert pushed(one, 1, terminating=True) == ErrorCode.NONE
    assert pushed(one, 5_000) == ErrorCode.INVALID_REQUEST


def test_too_much_and_unknown_codecs_are_refused() -> None:
    assert pushed(client(), 0, size=101) == ErrorCode.TELEMETRY_TOO_LARGE
    assert pushed(client(), 0, size=100) == ErrorCode.NONE
    assert pushed(client(), 0, compression=5) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert pushed(client(), 0, compression=-1) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def subscribed(*resources: Mapping[str, str], **values: str) -> Wanted:
    return wanted_of([subscription_of(each) for each in resources], values, ID)


def test_a_client_gets_the_metrics_of_all_resources_that_match_it() -> None:
    a = {"metrics": "x,y", "interval.ms": "500", "match": "client_id=app-.*, client_software_name=rdkafka"}
    b = {"metrics": "y,z", "interval.ms": "700"}
    both = subscribed(a, b, client_id="app-1", client_software_name="rdkafka")
    assert (both.metrics, both.interval_ms) == (("x", "y", "z"), 500)
    assert subscribed(a, b, client_id="app-1").metrics == ("y", "z")  # a value that is not known does not match
    assert subscribed(a, b, client_id="my-app-1", client_software_name="rdkafka").metrics == (
        "y",
        "z",
    )  # the whole value
    everything = subscribed(a, {"metrics": "*"}, client_id="app-1", client_software_name="rdkafka")
    assert everything.metrics == ("*",)
    assert subscribed() == subscribed({"match": "client_id=no", "metrics": "x"})
    assert subscribed().metrics == ()


def test_the_subscription_id_is_that_of_apache_kafka() -> None:
    # Crc32C of "[*]300000" mixed with the hash of the id, as org.apache.kafka.common.Uuid computes it
    import crc32c

    assert subscribed({"metrics": "*"}).subscription_id & 0xFFFF_FFFF == crc32c.crc32c(b"[*]300000") ^ 7 ^ 5
    assert subscribed().subscription_id & 0xFFFF_FFFF == crc32c.crc32c(b"[]300000") ^ 7 ^ 5
    assert -(2**31) <= subscribed().subscription_id < 2**31


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        (
            {"interval.ms": "99"},
            ErrorCode.INVALID_REQUEST,
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            {"interval.ms": "x"},
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration interval.ms: Not a number of type INT",
        ),
        ({"color": "red"}, ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: color"),
        ({"metrics": "a,,b"}, ErrorCode.INVALID_CONFIG, "Configuration 'metrics' values must not be empty."),
        ({"match": "client_id"}, ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id"),
        ({"match": "client_id="}, ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id="),
        ({"match": "client_id=a=b"}, ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id=a=b"),
        ({"match": "colour=red"}, ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: colour=red"),
        ({"match": "client_id=("}, ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id=("),
    ],
)
def test_settings_are_checked(settings: dict[str, str], code: ErrorCode, message: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_client_metrics("m", settings)
    assert (refused.value.code, refused.value.message) == (code, message)


def test_a_resource_needs_a_name() -> None:
    with pytest.raises(Refusal, match="Subscription name can't be empty"):
        check_client_metrics("", {})
