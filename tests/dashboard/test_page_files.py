"""The files of the page: they are in the wheel with the licences of others, and ask no other server for anything."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import streamactors.dashboard
from streamactors.dashboard import model, model_cluster, schema
from streamactors.dashboard.server.pages import page_files
from tests.dashboard.page_states import State, large, slow

ROOT = Path(__file__).parents[2]
PAGE = Path(streamactors.dashboard.__file__).parent / "page"
OURS = [path for path in sorted(PAGE.rglob("*")) if path.is_file() and path.parent.name != "vendor"]


def test_the_wheel_has_the_page_and_the_licences_of_what_it_brings() -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel")
    built = {each.distribution_path for each in wheel.WheelBuilder(str(ROOT)).recurse_included_files()}
    wanted = {
        f"streamactors/dashboard/page/{path.relative_to(PAGE).as_posix()}" for path in PAGE.rglob("*") if path.is_file()
    }
    assert wanted - built == set()
    assert {
        "streamactors/dashboard/page/vendor/uPlot.LICENSE.txt",
        "streamactors/dashboard/page/vendor/dagre.LICENSE.txt",
    } <= built


def test_the_server_serves_every_file_that_the_page_names() -> None:
    served = page_files()
    named: set[str] = set()
    for path in OURS:
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r'(?:src|href)="([^"]+)"', text)) if path.suffix == ".html" else set()
        named |= {each[2:] for each in re.findall(r'from "([^"]+)"', text)} if path.suffix == ".js" else set()
    assert {"app.js", "graph.js", "vendor/dagre.esm.js", "vendor/uPlot.min.js"} <= named
    assert {each for each in named if f"/{each}" not in served} == set()


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_a_file_uses_relative_addresses_and_makes_no_markup_of_strings(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/", "")
    assert re.findall(r"https?://|\binnerHTML\b|\bouterHTML\b|insertAdjacentHTML|document\.write|\beval\(", text) == []
    assert re.findall(r"""(?:src|href)="/|fetch\(["'`]/|EventSource\(["'`]/""", text) == []


NOT_SHOWN = {"version", "started_ms", "begin", "marks", "stalls", "cluster"}
"""Fields for other programs; a sentence on top says what stalls."""


def test_every_field_of_a_state_is_shown_somewhere() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in OURS if path.suffix == ".js")
    words = set(re.findall(r"\w+", text))
    kinds = [each for module in (model, model_cluster) for each in vars(module).values() if is_dataclass(each)]
    missing = {field.name for kind in kinds for field in fields(kind)} - words
    assert missing == NOT_SHOWN


@pytest.mark.parametrize("make", [slow, large])
def test_the_states_that_the_page_is_tested_with_follow_the_schema(make: Callable[[], State]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(json.loads(json.dumps(make())), json.loads(schema.FILE.read_bytes()))
