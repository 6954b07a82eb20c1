"""on_spark(expressions=True): the expressions give the rows of the same flow in Python, and what has none is refused by its name."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from streamactors import BuildError, Directive, Flow
from streamactors.spark import on_spark

pytestmark = pytest.mark.timeout(300)
RATE = 3
INPUT = "n long, i int, x double, s string, b boolean"
OUTPUT = "a long, b double, c string, d boolean"


def frame(spark: Any, rows: list[tuple[Any, ...]]) -> Any:
    return spark.createDataFrame(rows, INPUT).coalesce(1)


def rows_of(seed: int, n: int = 60) -> list[tuple[Any, ...]]:
    dice = random.Random(seed)
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.5, -2.25, 1e300]
    return [
        (
            dice.choice([0, 1, -1, dice.randrange(-(10**9), 10**9)]),
            dice.randrange(-1_000, 1_000),
            dice.choice([*special, dice.uniform(-1e6, 1e6)]),
            dice.choice(["", "a", "ä", "𝄞", "z", "Z"]),
            dice.random() < 0.5,
        )
        for _ in range(n)
    ]


def random_number(dice: random.Random, depth: int) -> str:
    if depth == 0 or dice.random() < 0.2:
        return dice.choice(["r[0]", "r[1]", "r[2]", "2", "-7", "0.5", "RATE"])
    kind = dice.choice("+-*%n")
    if kind == "%":
        return f"(({dice.choice(['r[0]', 'r[1]', 'r[0] + r[1]'])}) % {dice.randint(1, 9)})"
    if kind == "n":
        return f"(-{random_number(dice, depth - 1)})"
    return f"({random_number(dice, depth - 1)} {kind} {random_number(dice, depth - 1)})"


def random_condition(dice: random.Random) -> str:
    one = dice.choice(
        [
            f"(r[0] {dice.choice(['<', '>', '==', '!=', '<=', '>='])} {dice.randint(-5, 5)})",
            f"(r[2] {dice.choice(['<', '>', '==', '!=', '<=', '>='])} {dice.choice(['0.0', '1.5', 'r[2] * 1.0'])})",
            f"(r[3] {dice.choice(['<', '>', '==', '!='])} 'a')",
            "r[4]",
            "(r[4] == False)",
        ]
    )
    return one if dice.random() < 0.5 else f"({one} {dice.choice('&|')} {random_condition(dice)})"


def compiled(text: str) -> Any:
    return eval(f"lambda r: {text}", {"RATE": RATE})


def shown(rows: Any) -> list[tuple[str, ...]]:
    """NaN equals nothing, -0.0 equals 0.0: compare what is printed."""
    return [tuple(map(repr, row)) for row in rows]


def test_random_flows_give_the_rows_of_python(spark: Any) -> None:
    dice = random.Random(19)
    for seed in range(12):
        rows = rows_of(seed)
        while True:
            whole, part = random_number(dice, 2), random_number(dice, 1)
            if "r[2]" not in whole and "0.5" not in whole:
                break
        flow: Flow[Any, Any, Any] = (
            Flow.map(compiled("(r[0], r[1], r[2], r[3], r[4])"))
            .filter(compiled(random_condition(dice)))
            .map(compiled(f"({whole}, 1.0 * {part}, r[3] + 'x' + r[3], {random_condition(dice)})"))
            .filter(compiled(dice.choice(["r[0]", "r[0] % 3", "r[2]", "r[3]"])))
        )
        given = frame(spark, rows)
        try:
            wanted = shown(given.transform(on_spark(flow, OUTPUT)).collect())
        except Exception:  # an integer beyond 64 bits
            with pytest.raises(Exception, match="OVERFLOW"):
                given.transform(on_spark(flow, OUTPUT, expressions=True)).collect()
            continue
        assert shown(given.transform(on_spark(flow, OUTPUT, expressions=True)).collect()) == wanted, (whole, part)


def test_no_python_worker_takes_part(spark: Any) -> None:
    factor = 2
    flow = Flow.filter(lambda row: row[1] % 3).map(lambda row: (row[0] * factor * RATE, None, row[3], row[4]))
    out = frame(spark, rows_of(1)).transform(on_spark(flow, OUTPUT, expressions=True))
    plan = out._jdf.queryExecution().toString()
    assert "Python" not in plan
    assert "MapInArrow" not in plan
    assert out.schema.simpleString() == "struct<a:bigint,b:double,c:string,d:boolean>"
    assert out.count() > 10


def test_a_null_makes_a_result_null(spark: Any) -> None:
    given = frame(spark, [(None, 1, None, None, None), (2, 1, 1.0, "a", True)])
    flow = Flow.map(lambda row: (row[0] + 1, row[2] * 2.0, row[3] + "!", row[4]))
    found = given.transform(on_spark(flow, OUTPUT, expressions=True)).collect()
    assert [tuple(row) for row in found] == [(None, None, None, None), (3, 2.0, "a!", True)]


def skip(error: BaseException) -> Directive:
    return Directive.RESUME


REFUSED: dict[str, tuple[Any, str]] = {
    "a call": (Flow.map(lambda r: (abs(r[0]),)), "more than one expression of operators"),
    "an attribute": (Flow.map(lambda r: (r[3].upper(),)), "more than one expression of operators"),
    "a branch": (Flow.map(lambda r: (1 if r[4] else 2,)), "more than one expression of operators"),
    "an and": (Flow.filter(lambda r: r[4] and r[0]), "more than one expression of operators"),
    "a built-in": (Flow.map(tuple), "is no Python function"),
    "two integers": (Flow.map(lambda r: (r[0] / r[1],)), "/ of two integers"),
    "floor division": (Flow.map(lambda r: (r[0] // 2,)), "TypeError"),
    "a remainder": (Flow.map(lambda r: (r[0] % -3,)), "% other than of an integer by a positive constant"),
    "unlike things": (Flow.filter(lambda r: r[0] == r[2]), "== of int and float"),
    "a string times": (Flow.map(lambda r: (r[3] * 2,)), r"\* of str"),
    "a flag and a number": (Flow.filter(lambda r: r[4] & r[0]), "& of bool and int"),
    "a number or a flag": (Flow.filter(lambda r: r[0] | r[4]), r"\| of int and bool"),
    "an inversion": (Flow.filter(lambda r: ~r[0]), "more than one expression of operators"),
    "a flag": (Flow.map(lambda r: (r[4] + 1,)), r"\+ of bool"),
    "a map_concat": (Flow.map_concat(lambda r: [r]), "neither a map nor a filter"),
    "a decider": (Flow.map(lambda r: (r[0],)).with_attributes(decider=skip), "it has a decider"),
    "no tuple": (Flow.map(lambda r: r[0]), "no tuples of 1 values"),
    "another type": (Flow.map(lambda r: (r[3],)), "column a is bigint, and the flow gives str"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_expression_is_refused_with_its_reason(spark: Any, name: str) -> None:
    flow, why = REFUSED[name]
    with pytest.raises(BuildError, match=why):
        frame(spark, rows_of(1, 3)).transform(on_spark(flow, "a long", expressions=True))


def test_other_elements_and_per_task_are_refused() -> None:
    with pytest.raises(BuildError, match="leave elements and per_task out"):
        on_spark(Flow.map(lambda r: r), "a long", elements="dicts", expressions=True)
