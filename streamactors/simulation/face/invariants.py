"""The invariants that most pipelines have, ready to be named in a test.

Owner: the simulation of one run. Each is registered with its checks and its name. `key` takes a row's value of a store outside, or a record of a
topic, and returns the id of the record that was sent; without it the row's or the record's key is the id."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from streamactors.simulation.face.outside import Outside, unique
from streamactors.simulation.face.sent import as_bytes
from streamactors.simulation.face.verdict import HOLDS, Verdict, some

if TYPE_CHECKING:
    from streamactors.simulation.face.checks import Checks
    from streamactors.simulation.face.seen import Seen
    from streamactors.simulation.face.sent import Sending
    from streamactors.simulation.world.events import Event

Where = Outside | str
Key = Callable[[Any], Any] | None


class Invariants:
    """The ready invariants of one run."""

    def __init__(self, checks: Checks, sending: Sending, seen: Seen) -> None:
        self._checks = checks
        self._sending = sending
        self._seen = seen

    def nothing_lost(self, where: Where, key: Key, within_ms: float) -> None:
        """Every record that was sent has its row or record there in the end."""
        self._checks.eventually(f"nothing_lost({_name(where)})", lambda: self._all_there(where, key), within_ms)

    def _all_there(self, where: Where, key: Key) -> Verdict:
        there = {as_bytes(each) for each in self._ids(where, key)}
        missing = [sent for sent in self._sending.ids if as_bytes(sent) not in there]
        if not missing:
            return HOLDS
        return Verdict(
            f"{len(missing)} of {len(self._sending.ids)} records have nothing in {_name(where)}: {some(missing)}"
        )

    def exactly_once(self, where: Where, key: Key, within_ms: float) -> None:
        """Every record that was sent has one committed record, or one row, there: never two, and one in the end."""
        name = f"exactly_once({_name(where)})"
        told = f"records of {where}" if isinstance(where, str) else f"rows of {where.name}"
        self._checks.always(name, lambda: unique(self._present(where, key), told))
        self._checks.eventually(name, lambda: self._all_there(where, key), within_ms)

    def order_per_key(self, where: Where, key: Key) -> None:
        """What comes of the records of one key comes first in the order in which they were sent. Repetitions may come later."""
        self._checks.always(f"order_per_key({_name(where)})", lambda: self._in_order(where, key))

    def _in_order(self, where: Where, key: Key) -> Verdict:
        order = {
            as_bytes(sent.id): (sent.record.key, number)
            for records in self._sending.topics.values()
            for number, sent in enumerate(records)
            if sent.planned
        }
        last: dict[Any, tuple[int, Any]] = {}
        met: set[Any] = set()
        for each in self._ids(where, key):
            found = order.get(as_bytes(each))
            if found is None or each in met:
                continue
            met.add(each)
            of, number = found
            before = last.get(of)
            if before is not None and number < before[0]:
                return Verdict(f"{each!r} came after {before[1]!r}, and was sent before it; both have the key {of!r}")
            last[of] = (number, each)
        return HOLDS

    def committed_at_most_done(
        self, store: Outside, key: Key, group: str | None, unless: Callable[[Any], bool] | None
    ) -> None:
        """No offset is committed before every record below it has its effect in a store."""
        done: dict[tuple[str, int], int] = {}
        name = f"committed_at_most_done({store.name})"

        def heard(event: Event) -> None:
            facts = event.facts
            if event.kind == "commit" and group in (None, facts["group"]):
                self._all_done(name, store, key, done, event, unless)

        self._checks.listen(heard)

    def _all_done(
        self, name: str, store: Outside, key: Key, done: dict[tuple[str, int], int], event: Event, unless: Any
    ) -> None:
        facts: Any = event.facts
        where, upto = (facts["topic"], facts["partition"]), facts["offset"]
        below = done.get(where, 0)
        if upto <= below:
            return
        there = {as_bytes(each) for each in self._ids(store, key)}
        values = {sent.id: sent.value for sent in self._sending.topics.get(where[0], ()) if sent.planned}
        for sent, place in self._sending.places.items():
            due = place[:2] == where and below <= place[2] < upto
            if due and as_bytes(sent) not in there and not (unless is not None and unless(values.get(sent))):
                text = (
                    f"offset {upto} of {where[0]}-{where[1]} was committed before the effect of record {place[2]} ({sent!r}) "
                    f"in {store.name}"
                )
                raise self._checks.broke(name, text)
        done[where] = upto

    def one_final_result_per_window(self, topic: str, key: Key) -> None:
        """No window has two committed results. `key`: the window of a record; without it the record's key."""
        name = f"one_final_result_per_window({topic})"
        self._checks.always(name, lambda: unique(self._ids(topic, key), f"results of {topic}"))

    # --- what is there ---

    def _ids(self, where: Where, key: Key) -> Iterable[Any]:
        if isinstance(where, Outside):
            return [row.key if key is None else key(row.value) for row in where.written]
        return [record.key if key is None else key(record) for record in self._seen.of(where, committed=True)]

    def _present(self, where: Where, key: Key) -> Iterable[Any]:
        if isinstance(where, Outside):
            return [row.key if key is None else key(row.value) for row in where.rows]
        return self._ids(where, key)


def _name(where: Where) -> str:
    return where if isinstance(where, str) else where.name
