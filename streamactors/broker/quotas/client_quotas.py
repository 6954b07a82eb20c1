"""Which quota holds for a client, and what the clients under it have used. Pure: the caller brings the time.

Source: Kafka's ClientQuotaManager with its DefaultQuotaCallback. The quotas of one key (`producer_byte_rate` …) are looked up apart
from those of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from streamactors.broker.metadata.security_record import QuotaEntity
from streamactors.broker.quotas.mutations import DebtBucket
from streamactors.broker.quotas.per_client import PerClient
from streamactors.broker.quotas.sampled_rate import SampledRate

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATIONS: Final = "controller_mutation_rate"
OF_CLIENTS: Final = (PRODUCE, FETCH, REQUEST, MUTATIONS)

Name = str | None
Level = tuple[bool, Name, bool, Name]  # whether a user is named and which, the same of a client id; None: the default
Client = tuple[str, str]  # user, client id; empty if the quota does not depend on it


class Limit(NamedTuple):
    """A quota that holds for a client. Clients with the same `shared` use it together."""

    value: float
    shared: Client


class ClientQuotas:
    """`use` takes the quotas of the metadata image; `record` says how long a client must be silent."""

    def __init__(self, windows: int, window_ms: float, burst_s: float = 11.0) -> None:
        """`burst_s`: in one burst a client may make as many changes to the metadata as its quota allows in this number of seconds."""
        self._windows = windows
        self._window_ms = window_ms
        self._limits: dict[str, dict[Level, float]] = {}
        self._rates: PerClient[tuple[str, Client], SampledRate] = PerClient(lambda: SampledRate(windows, window_ms))
        self._buckets: PerClient[Client, DebtBucket] = PerClient(lambda: DebtBucket(burst_s))

    def use(self, quotas: Mapping[frozenset[QuotaEntity], Mapping[str, float]]) -> None:
        """Replace all quotas. What clients have used so far is kept."""
        limits: dict[str, dict[Level, float]] = {key: {} for key in OF_CLIENTS}
        for entity, values in quotas.items():
            names = dict(entity)
            level = ("user" in names, names.get("user"), "client-id" in names, names.get("client-id"))
            for key, value in values.items():
                if key in limits:
                    limits[key][level] = value
        self._limits = {key: found for key, found in limits.items() if found}

    def __bool__(self) -> bool:
        return bool(self._limits)

    def has(self, key: str) -> bool:
        """Whether any client has a quota of this key."""
        return key in self._limits

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """Return the most specific quota of a client, None if it has none."""
        limits = self._limits.get(key)
        if not limits:
            return None
        for level, shared in _levels(user, client_id):
            value = limits.get(level)
            if value is not None:
                return Limit(value, shared)
        return None

    def record(self, key: str, user: str, client_id: str, amount: float, now_ms: float) -> float:
        """Record what a client has used; return its throttle time in ms, 0 below the quota or without one."""
        limit = self.limit(key, user, client_id)
        if limit is None:
            return 0.0
        rate = self._rates.of((key, limit.shared), now_ms)
        rate.record(amount, now_ms)
        throttle_ms = rate.throttle_ms(limit.value, now_ms)
        return min(throttle_ms, self._window_ms) if key == REQUEST else throttle_ms

    def never_fits(self, key: str, user: str, client_id: str, amount: float, now_ms: float) -> bool:
        """Whether an amount is larger than the quota of all windows, and may be used nevertheless: the client is not above its quota without it."""
        limit, most = self.limit(key, user, client_id), self.most_in_all_windows(key, user, client_id)
        if limit is None or most is None or amount <= most:
            return False
        return self._rates.of((key, limit.shared), now_ms).per_second(now_ms) <= limit.value

    def bucket(self, limit: Limit, now_ms: float) -> DebtBucket:
        """Return the token bucket of the clients that share a quota of mutations."""
        return self._buckets.of(limit.shared, now_ms)

    def take_back(self, key: str, user: str, client_id: str, amount: float, now_ms: float) -> None:
        """Undo a record: the answer that was counted is not sent."""
        limit = self.limit(key, user, client_id)
        if limit is not None:
            self._rates.of((key, limit.shared), now_ms).record(-amount, now_ms)

    def most_in_all_windows(self, key: str, user: str, client_id: str) -> float | None:
        """Return what a client may use in all windows but one; a larger answer could never be below the quota. None without a quota."""
        limit = self.limit(key, user, client_id)
        return None if limit is None else limit.value * (self._windows - 1) * self._window_ms / 1_000


def _levels(user: str, client_id: str) -> Iterable[tuple[Level, Client]]:
    """Return the levels at which a quota can be set, the most specific first, each with the key that its clients share."""
    both, of_user, of_client = (user, client_id), (user, ""), ("", client_id)
    return (
        ((True, user, True, client_id), both),
        ((True, user, True, None), both),
        ((True, user, False, None), of_user),
        ((True, None, True, client_id), both),
        ((True, None, True, None), both),
        ((True, None, False, None), of_user),
        ((False, None, True, client_id), of_client),
        ((False, None, True, None), of_client),
    )
