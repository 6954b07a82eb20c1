"""The tables of names: no row is empty, and every name of ours in them exists."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

import streamactors
from docs import names
from docs.library_names import LIBRARIES

OURS = re.compile(r"`([A-Z][A-Za-z]+(?:\.[a-z_]+)?|streamactors(?:\.[A-Za-z_]+)+)`")


def exists(name: str) -> bool:
    owner: object = streamactors
    for part in name.removeprefix("streamactors.").split("."):
        if not hasattr(owner, part):
            try:
                owner = importlib.import_module(f"{owner.__name__}.{part}")  # type: ignore[attr-defined]
            except (ImportError, AttributeError):
                return name.startswith("SubFlow.") and hasattr(_sub_flow(), name.split(".")[1])
            continue
        owner = getattr(owner, part)
    return True


def _sub_flow() -> type:
    from streamactors.dsl.sub_flow import SubFlow

    return SubFlow


def test_no_name_of_akka_is_without_an_answer():
    rows = names.akka_rows()
    assert [f"{owner}.{name}" for owner, name, how, text in rows if not how or not text] == []
    assert [name for _, name, how, _ in rows if how == "not yet" and not name.startswith("StreamRefs")] == []
    assert len(rows) > 300
    unknown = (names.OTHER.keys() | names.JVM.keys()) - {f"{owner}.{name}" for owner, name, *_ in rows}
    assert unknown <= {"Source.from"}


def test_every_name_of_ours_in_the_table_exists():
    texts = [text for *_, text in names.akka_rows()]
    texts += [text for library in LIBRARIES for _, text in names.library_rows(library)]
    mentioned = {name for text in texts for name in OURS.findall(text)}
    assert len(mentioned) > 150
    assert sorted(name for name in mentioned if not exists(name)) == []


def public_names(library: str) -> set[str]:
    """The operators of an installed library, as its row would call them."""
    if library == "RxPY":
        rx, root = importlib.import_module("reactivex.operators"), importlib.import_module("reactivex")
        factories = {name for name in root.__all__ if inspect.isfunction(getattr(root, name))}
        return set(rx.__all__) | factories | {"Subject", "interval"}
    if library == "aiostream":
        stream = importlib.import_module("aiostream.stream")
        modules = {name for name in vars(stream) if inspect.ismodule(getattr(stream, name))}
        return {f"stream.{name}" for name in vars(stream) if not name.startswith("_")} - {
            f"stream.{m}" for m in modules
        }
    if library == "streamz":
        plain = {name for name in dir(importlib.import_module("streamz").Stream) if not name.startswith("_")}
        return plain | {"flush"}
    found = {"run_main", "cluster_main"} | {f"bytewax.connectors.{name}" for name in ("files", "kafka", "stdio")}
    for prefix, name in (("op", "bytewax.operators"), ("window", "bytewax.operators.windowing")):
        module = importlib.import_module(name)
        own = [each for each, value in vars(module).items() if getattr(value, "__module__", "") == name]
        found |= {f"{prefix}.{each}" for each in own if inspect.isfunction(getattr(module, each)) and each[0] != "_"}
    return found


@pytest.mark.parametrize(
    ("library", "module"),
    [("RxPY", "reactivex"), ("aiostream", "aiostream"), ("streamz", "streamz"), ("Bytewax", "bytewax")],
)
def test_every_operator_of_an_installed_library_has_a_row_and_no_row_names_another(library, module):
    pytest.importorskip(module)
    named = [re.sub(r"\(.*?\)", "", name) for theirs, _ in names.library_rows(library) for name in theirs.split(", ")]
    assert all(text for _, text in names.library_rows(library))
    assert public_names(library) - set(named) == set()
    assert {name for name in named if not name.startswith("async with")} - public_names(library) == set()
