"""Which quota holds for a client: Kafka's order of precedence, quota by quota."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.metadata.security_record import QuotaEntity
from streamactors.broker.quotas.client_quotas import FETCH, MUTATIONS, PRODUCE, REQUEST, ClientQuotas

NAMES = [None, "a", "b"]
PARTS = st.dictionaries(st.sampled_from(["user", "client-id"]), st.sampled_from(NAMES), min_size=1)
ENTITIES = st.dictionaries(
    PARTS.map(lambda parts: frozenset(QuotaEntity(kind, name) for kind, name in parts.items())),
    st.dictionaries(st.sampled_from([PRODUCE, FETCH]), st.integers(1, 100).map(float), min_size=1),
    max_size=12,
)


def model(quotas: dict[frozenset[QuotaEntity], dict[str, float]], key: str, user: str, client: str) -> float | None:
    """The order of Kafka's documentation: a user before all users, before none; below it, a client id before all, before none."""
    best: tuple[int, int] | None = None
    found = None
    for entity, values in quotas.items():
        parts = dict(entity)
        ranks = []
        for kind, name in (("user", user), ("client-id", client)):
            if kind not in parts:
                ranks.append(2)
            elif parts[kind] == name:
                ranks.append(0)
            elif parts[kind] is None:
                ranks.append(1)
            else:
                break
        else:
            if key in values and (best is None or (ranks[0], ranks[1]) < best):
                best, found = (ranks[0], ranks[1]), values[key]
    return found


@given(ENTITIES, st.sampled_from(["a", "b", "c"]), st.sampled_from(["a", "b", "c"]))
def test_the_most_specific_quota_holds(
    quotas: dict[frozenset[QuotaEntity], dict[str, float]], user: str, client: str
) -> None:
    made = ClientQuotas(11, 1_000)
    made.use(quotas)
    for key in (PRODUCE, FETCH, REQUEST):
        limit = made.limit(key, user, client)
        assert (None if limit is None else limit.value) == model(quotas, key, user, client)


def of(**values: float) -> dict[frozenset[QuotaEntity], dict[str, float]]:
    kinds = {"user": QuotaEntity("user", None), "client": QuotaEntity("client-id", None)}
    return {frozenset({kinds[kind]}): {PRODUCE: value} for kind, value in values.items()}


def test_client_ids_of_a_user_share_its_quota_and_users_do_not_share_theirs() -> None:
    quotas = ClientQuotas(11, 1_000)
    quotas.use(of(user=100))
    assert quotas.record(PRODUCE, "ann", "one", 900, 0) == 0
    assert quotas.record(PRODUCE, "bob", "one", 900, 0) == 0
    assert quotas.record(PRODUCE, "ann", "two", 200, 0) == 1_000  # 110 a second over 10 s


def test_users_share_the_quota_of_a_client_id() -> None:
    quotas = ClientQuotas(11, 1_000)
    quotas.use(of(client=100))
    quotas.record(PRODUCE, "ann", "one", 900, 0)
    assert quotas.record(PRODUCE, "ann", "two", 200, 0) == 0
    assert quotas.record(PRODUCE, "bob", "one", 200, 0) == 1_000


def test_a_changed_quota_keeps_what_was_used() -> None:
    quotas = ClientQuotas(11, 1_000)
    quotas.use(of(user=1_000))
    assert quotas.record(PRODUCE, "ann", "", 2_000, 0) == 0
    quotas.use(of(user=100))
    assert quotas.record(PRODUCE, "ann", "", 0, 0) == 10_000
    quotas.use({})
    assert quotas.record(PRODUCE, "ann", "", 10**9, 0) == 0
    assert not quotas


def test_the_time_of_requests_is_throttled_for_one_window_at_most() -> None:
    quotas = ClientQuotas(11, 1_000)
    quotas.use({frozenset({QuotaEntity("user", None)}): {REQUEST: 1.0}})
    assert quotas.record(REQUEST, "ann", "", 1_000, 0) == 1_000


def test_ten_thousand_clients_that_are_gone_are_forgotten() -> None:
    quotas = ClientQuotas(11, 1_000)
    quotas.use(of(user=100))
    for number in range(10_000):
        quotas.record(PRODUCE, f"user-{number}", "", 1, number * 10_000.0)
    assert len(quotas._rates) <= 1_001


def test_what_idle_clients_have_used_is_forgotten_and_that_of_busy_ones_kept() -> None:
    # client ids are chosen by clients: without a bound they would fill the broker's memory
    made = ClientQuotas(11, 1_000)
    made.use({frozenset({QuotaEntity("client-id", None)}): {PRODUCE: 10.0}})
    for number in range(999):
        made.record(PRODUCE, "ann", f"idle-{number}", 1, 0)
    assert made.record(PRODUCE, "ann", "busy", 200, 10_000) > 0
    assert len(made._rates) == 1_000
    made.record(PRODUCE, "ann", "new", 1, 11_000)
    assert len(made._rates) == 2
    assert made.record(PRODUCE, "ann", "busy", 0, 11_000) > 0, "a thousand client ids free a client from its quota"


def test_a_debt_of_changes_stays_when_a_thousand_client_ids_come() -> None:
    made = ClientQuotas(11, 1_000, burst_s=10)
    made.use({frozenset({QuotaEntity("client-id", None)}): {MUTATIONS: 1.0}})

    def spend(client_id: str, amount: float, now_ms: float) -> float | None:
        limit = made.limit(MUTATIONS, "ann", client_id)
        assert limit is not None
        return made.bucket(limit, now_ms).spend(amount, limit.value, now_ms, strict=True)

    assert spend("busy", 5_010, 0) == 5_000_000
    for number in range(5_000):
        assert spend(f"new-{number}", 1, number) == 0
    assert spend("busy", 1, 5_000) is None
    assert spend("busy", 1, 5_000_000) == 1_000
    spend("last", 1, 5_020_000)
    assert len(made._buckets) <= 5_002


def test_clients_whose_buckets_are_full_are_forgotten() -> None:
    made = ClientQuotas(11, 1_000, burst_s=10)
    made.use({frozenset({QuotaEntity("client-id", None)}): {MUTATIONS: 1.0}})
    for number in range(10_000):
        limit = made.limit(MUTATIONS, "ann", f"client-{number}")
        assert limit is not None
        made.bucket(limit, number * 100.0).spend(1, limit.value, number * 100.0, strict=True)
    assert len(made._buckets) <= 1_001
