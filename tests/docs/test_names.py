"""The tables of names: no row is empty, and every name of ours in them exists."""

from __future__ import annotations

import importlib
import re

import pytest

import streamactors
from docs import names

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
    texts += [text for library in names.LIBRARIES for _, text in names.library_rows(library)]
    mentioned = {name for text in texts for name in OURS.findall(text)}
    assert len(mentioned) > 150
    assert sorted(name for name in mentioned if not exists(name)) == []


@pytest.mark.parametrize(("library", "module"), [("RxPY", "reactivex"), ("aiostream", "aiostream")])
def test_the_names_of_an_installed_library_are_real(library, module):
    root = pytest.importorskip(module)
    operators = importlib.import_module(f"{module}.operators" if library == "RxPY" else f"{module}.stream")
    for theirs, text in names.library_rows(library):
        assert text
        for name in re.findall(r"[A-Za-z_.]+", re.sub(r"\(.*?\)|async with .*", "", theirs)):
            plain = name.removeprefix("stream.")
            found = any(hasattr(where, plain) for where in (operators, root)) or hasattr(
                importlib.import_module(f"{module}.subject") if library == "RxPY" else root, plain
            )
            assert found, f"{library} has no {plain}"
