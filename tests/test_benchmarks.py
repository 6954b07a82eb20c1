"""Benchmarks run once in a while, so nobody would notice that one of them imports a name that has moved."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCHMARKS = sorted(path.stem for path in (Path(__file__).parents[1] / "benchmarks").glob("[a-z]*.py"))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_can_be_imported(name: str) -> None:
    """`watching` could not: `registry_of` had moved."""
    importlib.import_module(f"benchmarks.{name}")
