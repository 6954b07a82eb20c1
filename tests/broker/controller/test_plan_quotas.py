"""Which quotas the controller refuses, with the sentences of Apache Kafka 4.1.1."""

from __future__ import annotations

import pytest

from streamactors.broker.controller.command import AlterQuotas, QuotaAlteration
from streamactors.broker.controller.rules.plan import plan
from tests.broker.controller.clusters import cluster, facts


def said(quota: str, value: float, **entity: str | None) -> str | None:
    alteration = QuotaAlteration(entity or {"user": "ann"}, ((quota, value),))
    ((outcome,), records) = (lambda made: (made.answer, made.records))(
        plan(facts(cluster()), AlterQuotas((alteration,)))
    )
    assert bool(records) == (outcome.message is None)
    return outcome.message


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (1.0, None),
        (1 + 5e-7, None),
        (1e-6, None),
        (1 - 5e-7, None),
        (1.00001, "producer_byte_rate cannot be a fractional value."),
        (1.5, "producer_byte_rate cannot be a fractional value."),
        (float("nan"), "Quota producer_byte_rate must be a finite number"),
        (float("inf"), "Quota producer_byte_rate must be a finite number"),
        (0.0, "Quota producer_byte_rate must be greater than 0"),
        (2.0**64, "Proposed value for producer_byte_rate is too large for a LONG."),
    ],
)
def test_a_rate_in_bytes_is_a_whole_number_but_for_a_millionth(value: float, sentence: str | None) -> None:
    assert said("producer_byte_rate", value) == sentence


def test_a_share_of_time_may_be_a_fraction() -> None:
    assert said("request_percentage", 0.5) is None
