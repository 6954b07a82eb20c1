"""The error of a user's function says at which element of which operator it was raised, whatever the operator does with its elements."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from streamactors import ActorSystem, Sink, Source


def fails(*_: Any) -> Any:
    raise KeyError("price")


def at(element: Any) -> Callable[..., Any]:
    """Return a function that raises at this element."""

    def fn(*elements: Any) -> Any:
        return fails() if element in elements else True

    return fn


OPERATORS: dict[str, Callable[[Any], Any]] = {
    "do_on_first": lambda s: s.drop(2).do_on_first(fails),
    "map": lambda s: s.map(at("c")),
    "filter": lambda s: s.filter(at("c")),
    "take_while": lambda s: s.take_while(at("c")),
    "drop_while": lambda s: s.drop_while(at("c")),
    "map_concat": lambda s: s.map_concat(lambda x: fails() if x == "c" else [x]),
    "scan": lambda s: s.scan("", lambda seen, x: fails() if x == "c" else seen + x),
    "fold": lambda s: s.fold("", lambda seen, x: fails() if x == "c" else seen + x),
    "reduce": lambda s: s.reduce(lambda seen, x: fails() if x == "c" else seen + x),
    "group_by": lambda s: s.group_by(at("c"), 10).merge_substreams(),
    "flat_map_concat": lambda s: s.flat_map_concat(lambda x: fails() if x == "c" else Source.single(x)),
    "map_async": lambda s: s.map_async(1, at("c")),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_error_names_the_operator_and_the_element(operator: str, actor_system: ActorSystem) -> None:
    letters = Source.from_iterable(["a", "b", "c", "d"])
    with pytest.raises(KeyError) as caught:
        OPERATORS[operator](letters).run_with(Sink.ignore(), actor_system).result(30)
    (note,) = [each for each in caught.value.__notes__ if "element" in each]
    assert operator in note
    assert "element 'c'" in note


def test_a_note_names_no_line_of_this_package_or_below_it_where_the_user_wrote_none(actor_system: ActorSystem) -> None:
    # "(…/streamactors/stages/batches/sql.py:169)": a line that the reader cannot change
    rows = Source.single({"a": 1}).run_with(
        Sink.to_sql_table(lambda: sqlite3.connect(":memory:"), "prices", ["a"]), actor_system
    )
    with pytest.raises(sqlite3.OperationalError) as failed:
        rows.result(timeout=10)
    assert failed.value.__notes__ == ["in stage to_sql_table, element [{'a': 1}]"]
