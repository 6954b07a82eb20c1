"""Mutation testing: change one expression of the product, and check whether a test fails.

    python tools/mutants.py --seed 7 --count 200 --group pure
    python tools/mutants.py --only streamactors/broker/group/classic/classic_state.py --count 20

Each mutant is one small change (a comparison, a boolean, a number, a deleted statement). The sample is drawn with the seed, so a run can
be repeated. The tests nearest to the changed file run first: those named after it, then those that import it, then the folder that mirrors
its package. A mutant is killed when a test fails or runs into its time limit. `tools/equivalent_mutants.txt` lists the mutants that no test
can notice, each with its reason; they are not counted.

The tree under test is a copy in a temporary folder: the checkout is not touched."""

from __future__ import annotations

import argparse
import ast
import copy
import fnmatch
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tools" / "equivalent_mutants.txt"
FAST = "not slow and not compat and not differential"
PURE = (
    "streamactors/*_state.py",
    "streamactors/engine/marks/*.py",
    "streamactors/actors/dispatching/timing_wheel.py",
    "streamactors/windows/operators/*.py",
    "streamactors/broker/group/classic_*.py",
    "streamactors/broker/purgatory.py",
    "streamactors/kafka/sources/replayed_range.py",
    "streamactors/kafka/reading/offset_tracker.py",
    "streamactors/spark/sink/batch_size.py",
    "streamactors/stages/*/token_bucket.py",
)
"""Files without clock, socket or thread, in which at least nine of ten mutants should be killed."""

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


@dataclass(frozen=True)
class Mutant:
    """One change of one file. `site` is the position of the changed node among all nodes of the file, in walking order."""

    file: str
    site: int
    change: str
    line: int
    before: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.change}: {self.before}"

    @property
    def key(self) -> str:
        """The mutant's name in the list of equivalent mutants. It has no line number, so other changes of the file do not change it."""
        return f"{self.file} | {self.change} | {self.before}"


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


def changed(node: ast.AST, change: str) -> ast.AST:
    """Return the changed node. The caller replaces `node` by it."""
    new = copy.deepcopy(node)
    if isinstance(new, ast.Compare):
        new.ops = [_COMPARE[type(new.ops[0])]()]
    elif isinstance(new, ast.BoolOp):
        new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
    elif change == "arithmetic" and isinstance(new, ast.BinOp | ast.AugAssign):
        new.op = _ARITHMETIC[type(new.op)]()
    elif change == "drop not" and isinstance(new, ast.UnaryOp):
        return new.operand
    elif isinstance(new, ast.If | ast.While | ast.IfExp):
        new.test = ast.UnaryOp(op=ast.Not(), operand=new.test)
    elif isinstance(new, ast.Constant):
        new.value = not new.value if isinstance(new.value, bool) else new.value + 1
    elif isinstance(new, ast.Return):
        new.value = ast.Constant(value=None)
    elif change == "break/continue":
        return ast.Continue() if isinstance(new, ast.Break) else ast.Break()
    else:
        return ast.Pass()
    return new


def _skipped(tree: ast.Module) -> set[int]:
    """Return the ids of nodes that no test should depend on: annotations, docstrings, log lines, `if TYPE_CHECKING` and `__repr__`."""
    out: set[int] = set()
    for node in ast.walk(tree):
        dead: list[ast.AST] = []
        if isinstance(node, ast.AnnAssign):
            dead.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            dead += [arg.annotation for arg in ast.walk(node.args) if isinstance(arg, ast.arg) and arg.annotation]
            dead += [node.returns] if node.returns else []
            dead += [*node.decorator_list, *([node] if node.name in ("__repr__", "__str__") else [])]
        elif (
            (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
            or (isinstance(node, ast.Call) and re.match(r"_?log(ger)?\.", ast.unparse(node.func)))
            or isinstance(node, ast.Raise | ast.Assert)
        ):
            dead.append(node)
        for root in dead:
            out.update(id(child) for child in ast.walk(root))
        if isinstance(node, ast.Expr) and id(node.value) in out:
            out.add(id(node))
    return out


def mutants_of(file: str, tree: ast.Module) -> list[Mutant]:
    """Return every mutant of one file."""
    skipped = _skipped(tree)
    found = []
    for site, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        for change in changes(node):
            before = re.sub(r"\s+", " ", ast.unparse(node).split("\n")[0])[:120]
            found.append(Mutant(file, site, change, getattr(node, "lineno", 0), before))
    return found


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.copy_location(self.new, node) if node is self.old else self.generic_visit(node)


def source_of(mutant: Mutant, root: Path) -> str:
    """Return the text of the changed file."""
    tree = ast.parse((root / mutant.file).read_text())
    node = next(node for site, node in enumerate(ast.walk(tree)) if site == mutant.site)
    return ast.unparse(ast.fix_missing_locations(_Replace(node, changed(node, mutant.change)).visit(tree)))


def nearest_tests(file: str, root: Path) -> list[list[str]]:
    """Return groups of test files, nearest first. A group runs only when the groups before it pass with the mutant."""
    path = Path(file)
    stem = path.stem.strip("_")
    module = ".".join(path.with_suffix("").parts)
    package, name = module.rsplit(".", 1)
    tests = sorted((root / "tests").rglob("test_*.py"))
    imports = re.compile(
        rf"from {re.escape(module)} import|from {re.escape(package)} import [^\n]*\b{name}\b|import {re.escape(module)}\b"
    )
    named = [test for test in tests if stem.removesuffix("_state").removesuffix("_stage") in test.stem]
    mirror = root / "tests" / Path(*path.parent.parts[1:])
    while not mirror.is_dir():
        mirror = mirror.parent
    named = [test for test in named if mirror in test.parents or module in test.read_text()] or []
    importing = [test for test in tests if imports.search(test.read_text())]
    around = [test for test in tests if mirror in test.parents]
    groups: list[list[str]] = []
    seen: set[Path] = set()
    for group in (named, importing, around):
        fresh = [test for test in group if test not in seen]
        seen.update(fresh)
        if fresh:
            groups.append([str(test.relative_to(root)) for test in fresh])
    return groups


class Tree:
    """A copy of the checkout in which one mutant at a time is put in place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._green: dict[tuple[str, ...], bool] = {}
        for name in ("streamactors", "tests", "docs", "examples", "benchmarks", "tools"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", ".importlinter"):
            shutil.copy(ROOT / name, folder / name)
        self._compile()

    def _compile(self) -> None:
        """Leave bytecode of all files, which every later run reads. Later runs write none: the file with the mutant is compiled each time."""
        subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"],
            cwd=self.folder,
            env={name: value for name, value in self._environment.items() if name != "PYTHONDONTWRITEBYTECODE"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def _environment(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}

    def survives(self, mutant: Mutant, limit_s: float) -> bool:
        """Run the nearest tests; return True when all of them pass."""
        target = self.folder / mutant.file
        original = target.read_text()
        end = time.monotonic() + limit_s
        for group in nearest_tests(mutant.file, self.folder):
            target.write_text(source_of(mutant, self.folder))
            try:
                failed = self._fails(group, end - time.monotonic())
            finally:
                target.write_text(original)
            if failed and self._green_without_a_mutant(group, limit_s):
                return False
            if time.monotonic() > end:
                break
        return True

    def _green_without_a_mutant(self, tests: list[str], limit_s: float) -> bool:
        key = tuple(tests)
        if key not in self._green:
            self._green[key] = not self._fails(tests, limit_s)
            if not self._green[key]:
                print(
                    f"     these tests fail without a mutant and count for nothing: {' '.join(tests)[:300]}", flush=True
                )
        return self._green[key]

    def _fails(self, tests: list[str], limit_s: float) -> bool:
        if limit_s <= 0:
            return False
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            "--timeout",
            "60",
            "-m",
            FAST,
        ]
        with subprocess.Popen(
            [*command, *tests],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as run:
            try:
                return run.wait(limit_s) not in (0, 5)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, 9)
                return False  # the limit of the whole mutant, not a hang: --timeout finds those


def sample(patterns: tuple[str, ...], seed: int, count: int, *, outside: bool) -> list[Mutant]:
    """Draw `count` mutants from the files that match the patterns, or with `outside` from all others."""
    equivalent = (
        {line.split(" # ")[0].strip() for line in EQUIVALENT.read_text().splitlines()} if EQUIVALENT.exists() else set()
    )
    found: list[Mutant] = []
    for path in sorted((ROOT / "streamactors").rglob("*.py")):
        file = str(path.relative_to(ROOT))
        matches = any(fnmatch.fnmatch(file, pattern) for pattern in patterns)
        if matches != outside and "/demo/" not in file:
            found += [
                mutant for mutant in mutants_of(file, ast.parse(path.read_text())) if mutant.key not in equivalent
            ]
    return random.Random(seed).sample(found, min(count, len(found)))


def main() -> int:
    """Run a sample, print the survivors and the share that was killed."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--group", choices=("pure", "other"), default="pure")
    options.add_argument("--only", action="append", default=[], help="a file pattern in place of a group")
    options.add_argument("--limit", type=float, default=180.0, help="seconds for the tests of one mutant")
    options.add_argument("--jobs", type=int, default=2)
    asked = options.parse_args()
    chosen = sample(
        tuple(asked.only) or PURE, asked.seed, asked.count, outside=not asked.only and asked.group == "other"
    )
    survivors: list[Mutant] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.jobs) as pool:
        trees = [Tree(Path(folder) / str(number)) for number in range(asked.jobs)]

        def work(mutant: Mutant) -> tuple[Mutant, bool]:
            tree = trees.pop()
            try:
                return mutant, tree.survives(mutant, asked.limit)
            finally:
                trees.append(tree)

        for number, (mutant, survived) in enumerate(pool.map(work, chosen), start=1):
            print(f"{number:4} {'SURVIVED' if survived else 'killed  '} {mutant}", flush=True)
            if survived:
                survivors.append(mutant)
    killed = len(chosen) - len(survivors)
    print(f"\n{killed} of {len(chosen)} killed ({100 * killed / max(1, len(chosen)):.0f} %), seed {asked.seed}")
    for mutant in survivors:
        print(f"  {mutant.key}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
