"""The changes that make a mutant: what can be changed in a file, and the text of the file with one change.

A change replaces the text of one expression or statement and keeps all line numbers, so comments, other functions and the positions in
tracebacks stay as they are."""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARE = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    """One change of one file. `site` is the position of the changed node among all nodes of the file, in walking order."""

    file: str
    site: int
    change: str
    line: int
    before: str
    function: str
    """Qualified name of the innermost function around the change, without `<locals>`; empty at module level and in class bodies."""
    nth: int = 1
    """1 for the first change of this kind and text in the function, 2 for the second, and so on."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.change}: {self.before}"

    @property
    def key(self) -> str:
        """The mutant's name in the list of equivalent mutants. It has no line number, so other changes of the file do not change it."""
        which = "" if self.nth == 1 else f" | {self.nth}"
        return f"{self.file} | {self.function} | {self.change} | {self.before}{which}"


def changes(node: ast.AST) -> Iterator[str]:
    """Yield the names of the changes that can be made to one node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield "comparison"
    elif isinstance(node, ast.BoolOp):
        yield "and/or"
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _ARITHMETIC:
        yield "arithmetic"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "drop not"
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield "negate condition"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int):
        yield "constant"
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield "return None"
    elif isinstance(node, ast.Break | ast.Continue):
        yield "break/continue"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "delete call"
    elif isinstance(node, ast.Assign | ast.AugAssign) and isinstance(_target(node), ast.Attribute | ast.Subscript):
        yield "delete assignment"


def _target(node: ast.Assign | ast.AugAssign) -> ast.expr:
    return node.targets[0] if isinstance(node, ast.Assign) else node.target


def _changed(node: ast.AST, change: str) -> tuple[ast.AST, str]:
    """Return the node whose text is replaced, and the new text."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        return node.test, f"(not ({ast.unparse(node.test)}))"
    if isinstance(node, ast.Return):
        return node, "return None"
    if change == "break/continue":
        return node, "continue" if isinstance(node, ast.Break) else "break"
    if change in ("delete call", "delete assignment"):
        return node, "pass"
    new = copy.deepcopy(node)
    if isinstance(new, ast.Compare):
        new.ops = [_COMPARE[type(new.ops[0])]()]
    elif isinstance(new, ast.BoolOp):
        new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
    elif isinstance(new, ast.UnaryOp):
        new = new.operand
    elif isinstance(new, ast.Constant):
        new.value = not new.value if isinstance(new.value, bool) else new.value + 1  # type: ignore[operator]
    elif isinstance(new, ast.BinOp | ast.AugAssign):
        new.op = _ARITHMETIC[type(new.op)]()
    text = ast.unparse(new)
    return node, text if isinstance(new, ast.AugAssign) else f"({text})"


def _skipped(tree: ast.Module) -> set[int]:
    """Return the ids of nodes that no test should depend on: annotations, texts, log lines, `if TYPE_CHECKING` and `__repr__`."""
    out: set[int] = set()
    for node in ast.walk(tree):
        dead: list[ast.AST] = []
        if isinstance(node, ast.AnnAssign):
            dead.append(node.annotation)
        elif isinstance(node, _FUNCTIONS):
            dead += [arg.annotation for arg in ast.walk(node.args) if isinstance(arg, ast.arg) and arg.annotation]
            dead += [node.returns] if node.returns else []
            dead += [*node.decorator_list, *([node] if node.name in ("__repr__", "__str__") else [])]
        elif isinstance(node, ast.ClassDef):
            dead += node.decorator_list
        elif (
            (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
            or (isinstance(node, ast.Call) and re.match(r"_?log(ger)?\.", ast.unparse(node.func)))
            or isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr)
        ):
            dead.append(node)
        for root in dead:
            out.update(id(child) for child in ast.walk(root))
        if isinstance(node, ast.Expr) and id(node.value) in out:
            out.add(id(node))
    return out


def _functions(node: ast.AST, outer: str, inside: str, out: dict[int, str]) -> None:
    """Write into `out` the innermost function around each node. Decorators and defaults run outside of their function."""
    out[id(node)] = inside
    name = f"{outer}.{node.name}".lstrip(".") if isinstance(node, _FUNCTIONS | ast.ClassDef) else outer
    body = {id(part) for part in node.body} if isinstance(node, _FUNCTIONS) else set()
    for part in ast.iter_child_nodes(node):
        _functions(part, name, name if id(part) in body else inside, out)


def mutants_of(file: str, text: str) -> list[Mutant]:
    """Return every mutant of one file."""
    tree = ast.parse(text)
    skipped = _skipped(tree)
    inside: dict[int, str] = {}
    _functions(tree, "", "", inside)
    found = []
    alike: Counter[tuple[str, str, str]] = Counter()
    for site, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        for change in changes(node):
            before = re.sub(r"\s+", " ", ast.unparse(node).split("\n")[0])[:120].rstrip()
            function = inside.get(id(node), "")
            alike[function, change, before] += 1
            nth = alike[function, change, before]
            found.append(Mutant(file, site, change, getattr(node, "lineno", 0), before, function, nth))
    return found


def text_with(mutant: Mutant, text: str) -> str:
    """Return the text of the changed file. It has as many lines as before."""
    node = next(node for site, node in enumerate(ast.walk(ast.parse(text))) if site == mutant.site)
    where, new = _changed(node, mutant.change)
    lines = text.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: where.lineno - 1])) + where.col_offset  # type: ignore[attr-defined]
    end = sum(map(len, lines[: where.end_lineno - 1])) + where.end_col_offset  # type: ignore[attr-defined]
    raw = text.encode()
    lost = "\n" * (raw[start:end].count(b"\n") - new.count("\n"))
    filled = f"{new[:-1]}{lost})" if new.endswith(")") else new + lost
    out = (raw[:start] + filled.encode() + raw[end:]).decode()
    ast.parse(out)
    return out
