"""Reading the results of several inner flows as downstream asks for them.

    inner flows ──► results that are ready ──► one outlet

Each inner flow is asked for its share of what downstream asks for, or for 32 elements if that is more and downstream asks for so many:
smaller chunks cost more than they bring. An inner flow that found no demand for its results is served first when
there is demand again, so that all take turns. Cost: a constant per chunk of results, however many inner flows run. Owner: the stage's logic."""

from __future__ import annotations

from collections import OrderedDict
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from streamactors.engine.island.connection import Connection

if TYPE_CHECKING:
    from streamactors.engine.logic import Logic

LEAST_SHARE: Final = 32
"""Elements that an inner flow is asked for at least, where downstream asks for as many."""


class Reading:
    """Results leave as they come. The order between inner flows that run at the same time is free; none gets a second turn before one that
    has results, too."""

    def __init__(self, logic: Logic) -> None:
        self._logic = logic
        self._inners: OrderedDict[Connection, int] = OrderedDict()  # by age -> when it was served last
        self._unserved: list[
            tuple[int, int, Connection]
        ] = []  # a heap of those that found no demand: last turn, number
        self._served: list[Connection] = []  # used up the demand; to be asked again
        self._turns = self._number = 0

    def __len__(self) -> int:
        return len(self._inners)

    def add(self, inner: Connection) -> None:
        """Read the results of one more inner flow."""
        self._inners[inner] = 0
        if self._logic.outlets[0].asked:
            self._ask(inner)
        else:
            self._wait(inner)

    def remove(self, inner: Connection) -> None:
        """All results of an inner flow have left."""
        del self._inners[inner]

    def downstream_asks(self) -> None:
        """Downstream has demand: push what lies ready, and ask for more."""
        out, inners, unserved = self._logic.outlets[0], self._inners, self._unserved
        coming = 0
        asked_one = False
        while unserved and coming < out.asked:
            inner = heappop(unserved)[2]
            if inner not in inners:
                continue
            if inner.ready and not asked_one:
                self._take(inner)
            else:  # those after one that has nothing yet are asked, too, and come after it
                asked_one = True
                coming += inner.ready
                self._ask(inner)
        if self._served and out.asked:
            served, self._served = self._served, []
            for inner in served:
                if inner in inners:
                    self._ask(inner)

    def came(self, inner: Connection) -> None:
        """Results of an inner flow lie ready."""
        self._take(inner)

    def failed(self, inner: Connection, error: BaseException) -> None:
        """An inner flow has failed; so does the stage."""
        self._logic.fail_stage(error)

    def _share(self) -> int:
        asked, n = self._logic.outlets[0].asked, max(1, len(self._inners))
        return min(asked, max(-(-asked // n), LEAST_SHARE))

    def _ask(self, inner: Connection) -> None:
        if self._logic.outlets[0].asked:
            inner.want(max(self._share(), inner.due))
        else:
            self._served.append(inner)

    def _wait(self, inner: Connection) -> None:
        self._number += 1
        heappush(self._unserved, (self._inners[inner], self._number, inner))

    def _take(self, inner: Connection) -> None:
        out = self._logic.outlets[0]
        if not out.asked:
            self._wait(inner)
            return
        chunk = inner.grab(min(out.asked, self._share()))
        if chunk:
            self._turns += 1
            self._inners[inner] = self._turns
            out.push(chunk)
        self._ask(inner)


class ReadingInOrder(Reading):
    """Results of the oldest inner flow leave first; those of a younger one when no stage of the island has anything to do.

    So results of flows that compute at once leave in the order of the flows, however the elements were cut into chunks, and a flow that waits
    (for a call, for a timer) lets the younger ones pass. The failure of a flow waits in the same way."""

    def __init__(self, logic: Logic) -> None:
        super().__init__(logic)
        self._late: dict[Connection, None] = {}  # younger ones with results, or with a failure
        self._failures: dict[Connection, BaseException] = {}
        self._ages: dict[Connection, int] = {}
        self._age = 0
        self._idle_due = False

    def add(self, inner: Connection) -> None:
        self._age += 1
        self._ages[inner] = self._age
        super().add(inner)

    def remove(self, inner: Connection) -> None:
        oldest = self._oldest() is inner
        super().remove(inner)
        del self._ages[inner]
        self._late.pop(inner, None)
        if oldest and self._inners:
            following = self._oldest()
            if following in self._late:
                del self._late[following]
                self._let_out(following)

    def came(self, inner: Connection) -> None:
        if inner is self._oldest():
            self._take(inner)
            return
        self._late[inner] = None
        self._call_when_idle()

    def failed(self, inner: Connection, error: BaseException) -> None:
        if inner is self._oldest():
            self._logic.fail_stage(error)
        else:
            self._failures[inner] = error
            self._late[inner] = None
            self._call_when_idle()

    def downstream_asks(self) -> None:
        super().downstream_asks()
        if self._late:
            self._call_when_idle()

    def _oldest(self) -> Connection:
        return next(iter(self._inners))

    def _share(self) -> int:
        return self._logic.outlets[0].asked

    def _let_out(self, inner: Connection) -> None:
        error = self._failures.get(inner)
        if error is not None:
            self._logic.fail_stage(error)
        else:
            self._take(inner)

    def _call_when_idle(self) -> None:
        if not self._idle_due:
            self._idle_due = True
            self._logic.call_when_idle(self._island_is_idle)

    def _island_is_idle(self) -> None:
        self._idle_due = False
        late = self._late
        for inner in sorted(late, key=self._ages.__getitem__):
            if inner in self._failures:
                self._logic.fail_stage(self._failures[inner])
                return
            if self._logic.outlets[0].asked:
                del late[inner]
                self._take(inner)
