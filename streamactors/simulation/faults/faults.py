"""What may go wrong in the runs of a test, and how often. Owner: the test."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final

from streamactors.errors import BuildError
from streamactors.simulation.faults.when import Between, InTime, in_time, probability, span

_SPANS: Final = frozenset({"downtime", "pauses", "slow_call_takes", "slow_request_takes", "clock_jumps", "lateness"})
_IN_TIME: Final = frozenset(
    {
        "broker_killed", "broker_slow", "broker_cut_off", "leader_moved", "coordinator_moved", "refused", "rebalance",
        "crash", "zombie", "clock_jump",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Faults:
    """Each fault with its rate, its times or its moments. 0: never.

    Faults that come by themselves take a probability for each virtual second, `at("30s")` or `every("1m")`. The others take a probability for
    each opportunity. Spans are strings such as "1s..30s". Raises BuildError for a value that cannot be meant."""

    broker_killed: InTime = 0.0
    """A broker stops, and comes back after `downtime`."""
    broker_slow: InTime = 0.0
    """Each request to a broker takes `slow_request_takes`, for `downtime`."""
    broker_cut_off: InTime = 0.0
    """No client and no broker reaches a broker, for `downtime`."""
    leader_moved: InTime = 0.0
    """Another broker leads a partition."""
    coordinator_moved: InTime = 0.0
    """Another broker coordinates some groups and transactions."""
    refused: InTime = 0.0
    """The brokers refuse one kind of request of the instances for want of rights, for a second."""
    rebalance: InTime = 0.0
    """An instance joins and leaves after `downtime`."""
    crash: InTime | Between | tuple[InTime | Between, ...] = 0.0
    """An instance is killed and started again after `downtime`: at any step, or between two moments."""
    zombie: InTime = 0.0
    """An instance is not scheduled for `pauses`, beyond its session, and continues."""
    clock_jump: InTime = 0.0
    """The wall clock of an instance jumps by `clock_jumps`, forward or back."""
    request_lost: float = 0.0
    """A request does not arrive, and its connection breaks."""
    answer_lost: float = 0.0
    """A broker has done what was asked, and its connection breaks before the answer."""
    slow_call: float = 0.0
    """A call of a store outside takes `slow_call_takes`."""
    failing_call: float = 0.0
    """A call of a store outside fails: before its effect or after it."""
    duplicate: float = 0.0
    """A call of a store outside arrives twice."""
    reordered: float = 0.0
    """The second arrival of a call comes after calls that were made later."""
    torn_write: float = 0.0
    """A crash: the file that was written last loses its end."""
    state_lost: float = 0.0
    """A crash: the disk of the instance is empty afterwards."""
    late: float = 0.0
    """The timestamp of a record is earlier by `lateness`."""
    poisoned: float = 0.0
    """A record that nobody can decode is sent beside a record."""
    huge: float = 0.0
    """A record of 900 kB is sent beside a record."""
    null: float = 0.0
    """A record without a value (a tombstone) is sent beside a record."""
    downtime: str = "500ms..20s"
    pauses: str = "15s..90s"
    slow_call_takes: str = "1s..30s"
    slow_request_takes: str = "200ms..3s"
    clock_jumps: str = "1s..1h"
    lateness: str = "1s..1h"

    def __post_init__(self) -> None:
        for field in fields(self):
            what, value = f"Faults: {field.name}", getattr(self, field.name)
            if field.name == "crash":
                for each in self.crashes:
                    if not isinstance(each, Between):
                        in_time(what, each)
            elif field.name in _SPANS:
                span(what, value)
            elif field.name in _IN_TIME:
                in_time(what, value)
            else:
                probability(what, value)

    @property
    def crashes(self) -> tuple[InTime | Between, ...]:
        """When instances crash, each way by itself."""
        given = self.crash
        return given if isinstance(given, tuple) else (given,)

    def span_ms(self, name: str) -> tuple[float, float]:
        """Return the bounds of a span, such as "downtime", in milliseconds."""
        return span(f"Faults: {name}", getattr(self, name))

    @classmethod
    def none(cls, **changes: Any) -> Faults:
        """Return no fault but those that are given: `Faults.none(crash=0.05)`. Raises BuildError."""
        return _changed(cls(), changes)

    @classmethod
    def everything(cls, **changes: Any) -> Faults:
        """Return every fault that a correct pipeline survives, at usual rates, but for those that are given. Raises BuildError.

        Faults of records (late, poisoned, huge, null) change what a right result is, and `reordered` calls need stores with versions, so these are
        0 unless given."""
        return _changed(_EVERYTHING, changes)


def _changed(faults: Faults, changes: dict[str, Any]) -> Faults:
    known = [field.name for field in fields(Faults)]
    for name in changes:
        if name not in known:
            raise BuildError(f"Faults: there is no fault {name!r}; choose from {', '.join(known)}")
    return replace(faults, **changes)


_EVERYTHING: Final = Faults(
    broker_killed=0.01,
    broker_slow=0.01,
    broker_cut_off=0.005,
    leader_moved=0.03,
    coordinator_moved=0.02,
    refused=0.005,
    rebalance=0.02,
    crash=(
        0.02,
        Between("effect", "commit", 0.01),
        Between("transaction begun", "transaction committing", 0.01),
        Between("transaction committing", "transaction begun", 0.02),
        Between("start", "assigned", 0.05),
        Between("revoked", "assigned", 0.05),
        Between("assigned", "commit", 0.03),
    ),
    zombie=0.01,
    clock_jump=0.01,
    request_lost=0.005,
    answer_lost=0.005,
    slow_call=0.01,
    failing_call=0.02,
    duplicate=0.01,
    torn_write=0.3,
    state_lost=0.1,
)
