"""Counts files, lines and arrows per package, and finds import cycles between files.

A node is a sub-package, or a file directly in the package; `__init__` is the package itself and no node. An arrow is a distinct pair of
nodes of which one imports the other; imports inside functions and under TYPE_CHECKING count. A cycle may contain imports under
TYPE_CHECKING of files of the same package (`streamactors.kafka` is one): they only name types.

    python tools/arrows.py                      a table of the packages of streamactors
    python tools/arrows.py streamactors.kafka   the nodes and arrows of one package
    python tools/arrows.py --cycles             the import cycles between files
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Container, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "streamactors"

Imports = dict[str, set[str]]
"""Each file's module name, with the module names of the files that the file imports."""


def module_of(path: Path) -> str:
    """Return the module name of a file below ROOT; a package's own for its `__init__`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def files() -> dict[str, Path]:
    """Return the files of the package by their module names."""
    return {module_of(path): path for path in sorted((ROOT / PACKAGE).rglob("*.py"))}


def imports(*, annotations: bool = True) -> Imports:
    """Return which file imports which, without `annotations` only what `imported_by` returns without them."""
    known = files()
    return {
        module: imported_by(module, path.read_text(encoding="utf-8"), known, annotations=annotations) - {module}
        for module, path in known.items()
    }


def imported_by(module: str, source: str, known: Container[str], *, annotations: bool = True) -> set[str]:
    """Return the modules of `known` that a file imports; without `annotations` not those of its package under TYPE_CHECKING."""
    tree = ast.parse(source)
    unread = set() if annotations else _under_type_checking(tree)
    return {
        target
        for node in ast.walk(tree)
        for target in _targets(node, known)
        if node not in unread or _package_of(target) != _package_of(module)
    }


def _package_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def _under_type_checking(tree: ast.Module) -> set[ast.AST]:
    conditions = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {node for condition in conditions for statement in condition.body for node in ast.walk(statement)}


def _targets(node: ast.AST, known: Container[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
    elif isinstance(node, ast.ImportFrom):
        assert not node.level, "the product has no relative imports"
        base = node.module or ""
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            if inner in known:
                yield inner
            elif base in known:
                yield base


def node_of(module: str, package: str) -> str | None:
    """Return the node of `package` that a module belongs to; None for a module outside and for the package itself."""
    inside = module.removeprefix(f"{package}.")
    return None if inside == module else inside.split(".")[0]


def arrows(package: str, found: Imports) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the nodes of a package and the arrows between them."""
    nodes = {node for module in found if (node := node_of(module, package)) is not None}
    pairs = set()
    for module, targets in found.items():
        start = node_of(module, package)
        for target in targets:
            end = node_of(target, package)
            if start is not None and end is not None and start != end:
                pairs.add((start, end))
    return nodes, pairs


def cycles(found: Imports) -> list[list[str]]:
    """Return the groups of files that import each other in a circle (strongly connected components of more than one file).

    A package's `__init__` takes part like any other file."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in sorted(found[module]):
            if target not in index:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            at = stack.index(module)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                groups.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for module in sorted(found):
        if module not in index:
            visit(module)
    return sorted(groups)


def _print_table(found: Imports) -> None:
    known = files()
    print(f"{'package':<34}{'files':>6}{'lines':>8}{'nodes':>7}{'arrows':>8}")
    for package in (PACKAGE, *(m for m in known if m.count(".") == 1 and known[m].name == "__init__.py")):
        inside = [path for module, path in known.items() if module == package or module.startswith(f"{package}.")]
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in inside)
        nodes, pairs = arrows(package, found)
        print(f"{package:<34}{len(inside):>6}{lines:>8}{len(nodes):>7}{len(pairs):>8}")


def _print_package(package: str, found: Imports) -> None:
    nodes, pairs = arrows(package, found)
    for node in sorted(nodes):
        print(f"{node:<26}-> {' '.join(sorted(end for start, end in pairs if start == node))}")
    print(f"{len(nodes)} nodes, {len(pairs)} arrows")


def main(arguments: list[str]) -> int:
    """Print what the arguments ask for."""
    found = imports()
    if arguments == ["--cycles"]:
        for group in cycles(imports(annotations=False)):
            print(" ".join(group))
    elif arguments:
        _print_package(arguments[0], found)
    else:
        _print_table(found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
