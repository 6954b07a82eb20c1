"""New connections: too many from one address are closed after a delay, too many at all make accepting pause."""

from __future__ import annotations

from streamactors.broker.metadata.security_record import QuotaEntity
from streamactors.broker.quotas.connection_rates import ConnectionRates, addresses_of


def rates(most: int = 2**31 - 1, **limits: float) -> ConnectionRates:
    made = ConnectionRates(11, 1_000, most)
    made.use(
        {
            frozenset({QuotaEntity("ip", None if name == "every" else name.replace("_", "."))}): {
                "connection_creation_rate": limit
            }
            for name, limit in limits.items()
        }
    )
    return made


def test_an_address_has_its_own_quota_or_that_of_every_address() -> None:
    made = rates(every=1, **{"10_0_0_1": 2})
    assert [made.delay_of("10.0.0.2", 0) > 0 for _ in range(12)] == [False] * 10 + [True] * 2
    assert [made.delay_of("10.0.0.1", 0) > 0 for _ in range(21)] == [False] * 20 + [True]


def test_a_refused_connection_does_not_count() -> None:
    made = rates(every=1)
    for _ in range(10):
        assert made.delay_of("10.0.0.2", 0) == 0
    for _ in range(100):
        assert made.delay_of("10.0.0.2", 5_000) > 0
    assert made.delay_of("10.0.0.2", 11_000) == 0


def test_without_a_quota_nothing_is_counted() -> None:
    assert rates().delay_of("10.0.0.1", 0) == 0
    assert not rates()._rates


def test_a_host_name_stands_for_its_address() -> None:
    made = rates(localhost=1)
    assert any(made.delay_of("127.0.0.1", 0) for _ in range(11))


def test_accepting_pauses_above_the_rate_of_the_broker() -> None:
    made = rates(2)
    assert [made.pause(0) > 0 for _ in range(21)] == [False] * 20 + [True]
    assert made.pause(0) <= 1_000


def test_a_quota_of_a_host_holds_for_all_its_addresses_and_for_none_if_there_is_no_such_host() -> None:
    assert addresses_of("127.0.0.1") == ["127.0.0.1"]
    assert addresses_of("no..host") == []
