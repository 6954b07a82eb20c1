"""Maps and filters as Spark's own expressions: a function of a row is called once, with symbols in place of the row's values.

A function qualifies if its bytecode is one expression without calls, attributes, branches and loops, so it cannot have an effect or see
anything but its argument and constants: the names it uses are numbers, strings or tuples of them. An operator is translated only where Spark's result is Python's; otherwise the error names the step
and the operator. Integers are Spark's 64-bit ones, whose overflow is an error, and nulls are SQL's."""

from __future__ import annotations

import dis
import operator
from collections.abc import Callable, Sequence
from inspect import getclosurevars, signature
from itertools import chain
from types import FunctionType
from typing import Any, Final

from streamactors.errors import BuildError
from streamactors.spark.shipping.chain import Link

_EXPRESSION: Final = (
    "RESUME NOP CACHE LOAD_FAST LOAD_FAST_LOAD_FAST LOAD_FAST_BORROW LOAD_FAST_BORROW_LOAD_FAST_BORROW LOAD_CONST LOAD_SMALL_INT LOAD_DEREF "
    "LOAD_GLOBAL COPY_FREE_VARS BINARY_OP BINARY_SUBSCR BINARY_SLICE BUILD_SLICE BUILD_TUPLE UNPACK_SEQUENCE STORE_FAST STORE_FAST_LOAD_FAST "
    "STORE_FAST_STORE_FAST COMPARE_OP UNARY_NEGATIVE RETURN_VALUE RETURN_CONST SWAP COPY"
)
_ALLOWED: Final = frozenset(_EXPRESSION.split())
_CONSTANTS: Final = (bool, int, float, str, type(None))
_KINDS: Final = {
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "int",
    "double": "float",
    "string": "str",
    "boolean": "bool",
}
_WAY: Final = "leave expressions=True out, and it runs in Python"
_LONG: Final = range(-(1 << 63), 1 << 63)


class NoExpression(Exception):
    """Spark has no expression with Python's result."""


class Symbol:
    """A value of a row: Spark's column, and the kind of Python value that it represents (int, float, str, bool, or another)."""

    def __init__(self, column: Any, kind: str) -> None:
        self.column = column
        self.kind = kind

    def __bool__(self) -> bool:
        raise NoExpression(
            "its truth value would decide what Python does next; compare it, and join conditions by & and |"
        )

    def __str__(self) -> str:  # of "%s" % value, too, which Python would call once and not for each row
        raise NoExpression("a string that is formatted with the value; join strings with +")

    __repr__ = __str__

    def __format__(self, how: str) -> str:
        return str(self)

    def __neg__(self) -> Symbol:
        return Symbol(-self.column, self._number("-"))

    def _number(self, name: str) -> str:
        if self.kind not in ("int", "float"):
            raise NoExpression(f"{name} of {self.kind}")
        return self.kind


def _without(name: str) -> Callable[..., Any]:
    def refuse(self: Symbol, *_: Any) -> Any:
        raise NoExpression(f"{name} of {self.kind}")

    return refuse


_ONLY_IN_PYTHON: Final = (
    "abs bytes ceil complex contains divmod float floor floordiv hash index int invert iter len lshift matmul pos pow rdivmod rfloordiv "
    "rlshift rmatmul round rpow rrshift rshift rxor trunc xor"
)
"""For a method that is missing, Python's own error would name the class Symbol, which users do not know. __getitem__ is not in the list: with it,
"%" would take the value for a mapping and drop it in silence."""


def _symbol(value: Any) -> Symbol:
    """Return a constant as a symbol. Raises NoExpression."""
    from pyspark.sql import functions as f

    if isinstance(value, Symbol):
        return value
    if type(value) is int and value not in _LONG:
        raise NoExpression(f"{value} is not a 64-bit integer")
    if type(value) is int:
        return Symbol(f.lit(value).cast("bigint"), "int")
    if type(value) in _CONSTANTS:
        return Symbol(f.lit(value), "null" if value is None else type(value).__name__)
    raise NoExpression(f"a constant of type {type(value).__name__}")


def _arithmetic(name: str, fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Symbol]:
    def apply(left: Any, right: Any) -> Symbol:
        a, b = _symbol(left), _symbol(right)
        if name == "+" and a.kind == b.kind == "str":
            from pyspark.sql import functions as f

            return Symbol(f.concat(a.column, b.column), "str")
        kinds = {a._number(name), b._number(name)}
        if name == "/" and kinds == {"int"}:
            raise NoExpression("/ of two integers, which Python rounds once and Spark twice; use a float")
        return Symbol(fn(a.column, b.column), "float" if "float" in kinds else "int")

    return apply


def _remainder(left: Any, right: Any) -> Symbol:
    from pyspark.sql import functions as f

    a = _symbol(left)
    if a.kind != "int" or type(right) is not int or not 0 < right < 1 << 63:
        raise NoExpression("% other than of an integer by a positive constant, where Python and Spark differ")
    return Symbol(f.pmod(a.column, f.lit(right).cast("bigint")), "int")


def _comparison(name: str, fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Symbol]:
    def apply(left: Any, right: Any) -> Symbol:
        from pyspark.sql import functions as f

        a, b = _symbol(left), _symbol(right)
        if a.kind != b.kind or a.kind not in ("int", "float", "str", "bool"):
            raise NoExpression(f"{name} of {a.kind} and {b.kind}")
        if a.kind != "float":
            return Symbol(fn(a.column, b.column), "bool")
        compared = operator.eq if name == "!=" else fn  # Spark takes NaN for a number, the largest
        found = compared(a.column, b.column) & ~f.isnan(a.column) & ~f.isnan(b.column)
        return Symbol(~found if name == "!=" else found, "bool")

    return apply


def _logical(name: str, fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Symbol]:
    def apply(left: Any, right: Any) -> Symbol:
        a, b = _symbol(left), _symbol(right)
        if a.kind != "bool" or b.kind != "bool":
            raise NoExpression(f"{name} of {a.kind} and {b.kind}")
        return Symbol(fn(a.column, b.column), "bool")

    return apply


def _install() -> None:
    """Give symbols their operators, and the reflected ones."""
    named: dict[str, Callable[[Any, Any], Symbol]] = {
        "add": _arithmetic("+", operator.add),
        "sub": _arithmetic("-", operator.sub),
        "mul": _arithmetic("*", operator.mul),
        "truediv": _arithmetic("/", operator.truediv),
        "mod": _remainder,
        "and": _logical("&", operator.and_),
        "or": _logical("|", operator.or_),
    }
    for name, apply in named.items():
        setattr(Symbol, f"__{name}__", apply)
        setattr(Symbol, f"__r{name}__", lambda self, other, apply=apply: apply(other, self))
    for name in _ONLY_IN_PYTHON.split():
        setattr(Symbol, f"__{name}__", _without(name))
    for name, text in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
        setattr(Symbol, f"__{name}__", _comparison(text, getattr(operator, name)))


_install()


def as_expressions(who: str, links: Sequence[Link], frame: Any, schema: Any) -> Any:
    """Return the DataFrame of the results of maps and filters over the rows of `frame`, as tuples. Raises BuildError naming a step that has
    no expression."""

    if str(frame.sparkSession.conf.get("spark.sql.ansi.enabled")).lower() != "true":
        raise BuildError(
            f"{who}: expressions need spark.sql.ansi.enabled, or an integer beyond 64 bits would become another one"
        )
    kinds = [(field.name, _KINDS.get(field.dataType.simpleString(), "other")) for field in frame.schema.fields]
    row: Any = tuple(Symbol(frame[name].cast("bigint") if kind == "int" else frame[name], kind) for name, kind in kinds)
    conditions = []
    for link in links:
        op = link.op
        if op is None or op.fn is None or op.kind not in ("map", "filter"):
            raise _refused(who, link, "it is neither a map nor a filter")
        if op.attributes.decider is not None:
            raise _refused(who, link, "it has a decider")
        try:
            found = _called(op.fn, row)
            if op.kind == "filter":
                conditions.append(_truth(found).column)
            else:
                row = found
        except NoExpression as reason:
            raise _refused(who, link, str(reason)) from None
        except Exception as error:
            raise _refused(who, link, f"{type(error).__name__}: {error}") from error
    fields = schema.fields
    if not isinstance(row, tuple) or len(row) != len(fields):
        raise BuildError(
            f"{who}: the results are not tuples of {len(fields)} values, as the schema says; end in a map to such a tuple"
        )
    for condition in conditions:
        frame = frame.where(condition)
    columns = []
    for value, field in zip(row, fields, strict=True):
        try:
            symbol, wanted = _symbol(value), _KINDS.get(field.dataType.simpleString(), "other")
        except NoExpression as reason:
            raise BuildError(f"{who}: column {field.name} has no expression in Spark: {reason}; {_WAY}") from None
        if symbol.kind not in (wanted, "null"):
            raise BuildError(
                f"{who}: column {field.name} is {field.dataType.simpleString()}, and the flow gives {symbol.kind}"
            )
        columns.append(symbol.column.cast(field.dataType).alias(field.name))
    return frame.select(*columns)


def _called(fn: Callable[..., Any], row: Any) -> Any:
    if not isinstance(fn, FunctionType):
        raise NoExpression(f"{fn!r} is not a Python function")
    for step in dis.get_instructions(fn):
        if step.opname not in _ALLOWED:
            raise NoExpression(f"its function does more than one expression of operators ({step.opname.lower()})")
    names = getclosurevars(fn)
    for name, value in chain(
        names.nonlocals.items(), names.globals.items(), names.builtins.items(), _defaults(fn).items()
    ):
        if not _is_constant(value):  # its operators are functions, which may have effects
            raise NoExpression(
                f"it uses {name}, a {type(value).__name__}, and a name may only refer to a number or a string"
            )
    return fn(row)


def _defaults(fn: FunctionType) -> dict[str, Any]:
    return {name: each.default for name, each in signature(fn).parameters.items() if each.default is not each.empty}


def _is_constant(value: Any) -> bool:
    return all(map(_is_constant, value)) if type(value) is tuple else type(value) in _CONSTANTS


def _truth(value: Any) -> Symbol:
    symbol = _symbol(value)
    if symbol.kind == "bool":
        return symbol
    zero = {"int": 0, "float": 0.0, "str": ""}.get(symbol.kind)
    if zero is None:
        raise NoExpression(f"the truth of {symbol.kind}")
    return Symbol(symbol.column != zero, "bool")


def _refused(who: str, link: Link, why: str) -> BuildError:
    return BuildError(f"{who}: stage '{link.label}' has no expression in Spark: {why}; {_WAY}")
