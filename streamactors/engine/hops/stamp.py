"""A stamp: a mark that carries times. It follows the last element of a chunk and travels as signals do, so it never overtakes that element.

    put into a connection ──waits──► the stage takes the elements before it ──works──► the stage puts it into its outlet ──► …

The times of a journey are contiguous: each hop begins at the moment where the one before ended, so the hops add up to the whole exactly.
Owner: whoever holds it, one thread at a time. A fan-out makes one stamp per outlet; they share their `Origin`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from streamactors.engine.marks.marks import Key, Position, Signal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamactors.engine.hops.ledger import HopLedger
    from streamactors.engine.hops.rows import HopRow
    from streamactors.engine.logic import Logic

Path: TypeAlias = "tuple[Path, HopRow, float, float] | None"
"""The hops so far, newest first: (those before, row, ms of waiting, ms of work)."""


Start: TypeAlias = "tuple[Sequence[tuple[HopRow, float]], int]"
"""The hops with which a journey began, (row, ms of waiting) each, and how many of the hops on the stamp's path they replace."""


class Origin:
    """Where a journey began. It lives as long as one of its stamps: the ledger counts those that are on their way."""

    __slots__ = ("__weakref__", "asked", "began_ms", "held", "ledger", "number", "place", "skewed", "start")

    def __init__(self, ledger: HopLedger, number: int, place: Position, began_ms: float, skewed: bool) -> None:
        self.ledger = ledger
        self.number = number
        self.place = place
        """The position after the last element before the stamp: the journey is done when a sink has done everything before it."""
        self.began_ms = began_ms
        self.skewed = skewed
        """True if the clock of the machine that wrote the record is ahead of this one, so that the first hop is not known."""
        self.asked = False
        """Whether the source asks when the journey began."""
        self.held: dict[Any, list[Stamp]] = {}
        """By sink: the stamps that have arrived meanwhile."""
        self.start: Start | None = None
        """The answer."""


class Stamp(Signal):
    """A stamp on its way. `since_ms`: the end of its last hop. `began_ms`: when the stage at work began with the elements before it; None: not yet."""

    __slots__ = ("began_ms", "origin", "path", "row", "since_ms")
    __setattr__ = object.__setattr__

    def __init__(self, key: Key, origin: Origin, since_ms: float, path: Path = None) -> None:
        self.key = key  # type: ignore[misc]  # frozen in the other signals
        self.origin = origin
        self.since_ms = since_ms
        self.began_ms: float | None = None
        self.path = path
        self.row: HopRow | None = (
            None  # of a wait inside the stage, which ends when the stamp leaves the stage; None: the stage's own
        )

    def __eq__(self, other: object) -> bool:
        return type(other) is Stamp and other.origin is self.origin

    def __hash__(self) -> int:
        return hash(self.origin)

    def __repr__(self) -> str:
        return f"Stamp({self.key}, {self.origin.place[1]})"

    # ── on the way ────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """The stage begins with the elements before the stamp; only the first call counts."""
        if self.began_ms is None:
            self.began_ms = self.origin.ledger.now_ms()

    def begin_at(self, ms: float) -> None:
        """The stage has begun with the elements before the stamp at this time."""
        self.began_ms = ms

    def taken(self, by: Logic) -> None:
        """A stage has taken everything before the stamp. At a sink the journey ends, once the sink has done it."""
        self.begin()
        if not by.outlets:
            self.origin.ledger.arrived(by, self)

    def pushed(self, by: Logic) -> Stamp:
        """A stage has put the stamp into an outlet: end its hop there, and return the stamp that travels on."""
        row = self.row or self.origin.ledger.row_of(by)
        now = self.origin.ledger.now_ms()
        return Stamp(self.key, self.origin, now, self._with(row, now, by.only_waits or self.row is not None))

    def end_hop(self, row: HopRow, *, waited: bool, at_ms: float | None = None) -> None:
        """End a hop in place: now, or at a time that is known."""
        now = self.origin.ledger.now_ms() if at_ms is None else at_ms
        self.path = self._with(row, now, waited)
        self.since_ms, self.began_ms = now, None

    def _with(self, row: HopRow, now: float, waited: bool) -> Any:
        since = self.since_ms
        began = now if waited else since if self.began_ms is None else self.began_ms
        return (self.path, row, began - since, now - began)
