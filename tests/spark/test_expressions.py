"""on_spark(expressions=True): the expressions give the rows of the same flow in Python, and what has none is refused by its name."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from typing import Any

import pytest

from streamactors import BuildError, Directive, Flow
from streamactors.spark import on_spark
from streamactors.spark.frames.expressions import NoExpression, Symbol

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


@pytest.mark.slow
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


class Loud:
    """An object whose operator is a function of the user's."""

    def __add__(self, other: Any) -> int:
        raise AssertionError("it was called with a symbol")


LOUD = Loud()
NAMES = {1: "a"}
SEEN: list[Any] = []


def grows(r: Any) -> Any:
    seen = SEEN
    seen += r
    return (r[0],)


def first_letters(r: Any) -> Any:
    first, _ = r[3]
    return (first,)


REFUSED: dict[str, tuple[Any, str]] = {
    "a call": (Flow.map(lambda r: (abs(r[0]),)), "more than one expression of operators"),
    "an attribute": (Flow.map(lambda r: (r[3].upper(),)), "more than one expression of operators"),
    "a branch": (Flow.map(lambda r: (1 if r[4] else 2,)), "more than one expression of operators"),
    "an and": (Flow.filter(lambda r: r[4] and r[0]), "more than one expression of operators"),
    "a built-in": (Flow.map(tuple), "is not a Python function"),
    "two integers": (Flow.map(lambda r: (r[0] / r[1],)), "/ of two integers"),
    "floor division": (Flow.map(lambda r: (r[0] // 2,)), "floordiv of int"),
    "a power": (Flow.map(lambda r: (2 ** r[0],)), "rpow of int"),
    "a shift": (Flow.map(lambda r: (r[0] << 1,)), "lshift of int"),
    "a subscript of a string": (Flow.map(lambda r: (r[3][0],)), "not subscriptable"),
    "a slice of a string": (Flow.map(lambda r: (r[3][:1],)), "not subscriptable"),
    "a place": (Flow.map(lambda r: (r[r[1]],)), "index of int"),
    "a key": (Flow.map(lambda r: (NAMES[r[0]],)), "it uses NAMES, a dict"),
    "an unpacking": (Flow.map(first_letters), "iter of str"),
    "a format": (Flow.map(compiled("('user-%s' % r[3],)")), "a string that is formatted with the value"),
    "a format of two": (
        Flow.map(compiled("('%r-%s' % (r[0], r[1]),)")),
        "a string that is formatted with the value|more than one expression",
    ),
    "a format of a number": (Flow.map(compiled("('%d' % r[0],)")), "int of int|index of int"),
    "a format of a fraction": (Flow.map(compiled("('%.2f' % r[2],)")), "float of float"),
    "a format without a place": (Flow.map(compiled("('user' % r[3],)")), "not all arguments converted"),
    "an f-string": (Flow.map(lambda r: (f"{r[3]}",)), "more than one expression of operators"),
    "a chain of comparisons": (Flow.filter(lambda r: 0 < r[0] < 9), "more than one expression of operators"),
    "an in": (Flow.filter(lambda r: r[3] in ("a", "b")), "more than one expression of operators"),
    "an is": (Flow.filter(lambda r: r[3] is None), "more than one expression of operators"),
    "a not": (Flow.filter(lambda r: not r[4]), "more than one expression of operators"),
    "equal tuples": (Flow.filter(lambda r: (r[0],) == (r[1],)), "its truth value would decide"),
    "a tuple in the result": (
        Flow.map(lambda r: ((r[0], r[1]),)),
        "column a has no expression in Spark: a constant of type tuple",
    ),
    "a large constant": (Flow.map(lambda r: (1 << 70,)), "column a has no expression in Spark"),
    "an object's operator": (Flow.map(lambda r: (LOUD + r[0],)), "it uses LOUD, a Loud"),
    "a list that grows": (Flow.map(grows), "it uses SEEN, a list"),
    "a default": (Flow.map(lambda r, by=[]: (by + r,)), "it uses by, a list"),
    "a remainder": (Flow.map(lambda r: (r[0] % -3,)), "% other than of an integer by a positive constant"),
    "unlike things": (Flow.filter(lambda r: r[0] == r[2]), "== of int and float"),
    "a string times": (Flow.map(lambda r: (r[3] * 2,)), r"\* of str"),
    "a flag and a number": (Flow.filter(lambda r: r[4] & r[0]), "& of bool and int"),
    "a number or a flag": (Flow.filter(lambda r: r[0] | r[4]), r"\| of int and bool"),
    "an inversion": (Flow.filter(lambda r: ~r[0]), "more than one expression of operators"),
    "a flag": (Flow.map(lambda r: (r[4] + 1,)), r"\+ of bool"),
    "a map_concat": (Flow.map_concat(lambda r: [r]), "neither a map nor a filter"),
    "a decider": (Flow.map(lambda r: (r[0],)).with_attributes(decider=skip), "it has a decider"),
    "no tuple": (Flow.map(lambda r: r[0]), "not tuples of 1 values"),
    "another type": (Flow.map(lambda r: (r[3],)), "column a is bigint, and the flow gives str"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_expression_is_refused_with_its_reason(spark: Any, name: str) -> None:
    flow, why = REFUSED[name]
    with pytest.raises(BuildError, match=why):
        frame(spark, rows_of(1, 3)).transform(on_spark(flow, "a long", expressions=True))


@pytest.mark.parametrize(
    "operation",
    [
        str,
        repr,
        format,
        "{}".format,
        "%s".__mod__,
        "%a".__mod__,
        bool,
        len,
        iter,
        list,
        hash,
        int,
        float,
        complex,
        bytes,
        round,
        abs,
        math.floor,
        math.ceil,
        math.trunc,
        math.sqrt,
        math.isnan,
        operator.index,
        operator.invert,
        operator.pos,
        {}.get,
        {1}.__contains__,
        lambda it: divmod(it, 2),
        lambda it: 2**it,
        lambda it: it ^ 1,
        lambda it: 1 in it,
        lambda it: f"{it:>5}",
        lambda it: range(it),
        lambda it: "ab"[it:],
        lambda it: it @ it,
        lambda it: it // 2,
        lambda it: 1 >> it,
        lambda it: [1, 2][it],
    ],
)
def test_what_python_does_with_a_value_is_refused_if_spark_does_it_for_no_row(operation: Callable[[Any], Any]) -> None:
    with pytest.raises(NoExpression):
        operation(Symbol(None, "int"))


def test_constants_and_tuples_of_them_may_have_names(spark: Any) -> None:
    pair, prefix = (2, 3), "user-"
    flow = Flow.map(lambda r, by=5: (r[0] * pair[1] + by, 1.0 * RATE, prefix + r[3], r[4]))
    given = frame(spark, [(1, 1, 1.0, "ann", True)])
    rows = [tuple(row) for row in given.transform(on_spark(flow, OUTPUT, expressions=True)).collect()]
    assert rows == [(8, 3.0, "user-ann", True)]


def test_other_elements_and_per_task_are_refused() -> None:
    with pytest.raises(BuildError, match="leave elements and per_task out"):
        on_spark(Flow.map(lambda r: r), "a long", elements="dicts", expressions=True)
