"""Where an operator is: its method in the mix-in of a topic, its stage in the room of stages of the same name."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from pathlib import Path

import pytest

import streamactors.stages
from streamactors.dsl.operators.all_operators import Operators
from streamactors.dsl.sinks.all_sinks import SinkConstructors
from streamactors.dsl.sources.all_sources import SourceConstructors
from streamactors.engine.stage import GraphStage
from streamactors.stages.junctions.fan_out import Broadcast, Partition
from streamactors.stages.sources.hand_over import HandOver

ROOMS = {path.name for path in Path(streamactors.stages.__file__).parent.iterdir() if path.is_dir()}
WIDER = {
    "asking": {"asynchronous"},
    "bytes": {"framing", "compression", "network"},
    "rows": {"framing", "transform", "files"},
    # `retry` runs a flow inside, as the restarts of control do; `validate` is a map whose failures are diverted
    "errors": {"errors", "control", "transform", "junctions"},
    "sources.finite": {"sources", "files"},
    "sources.files": {"files", "network", "sources"},
    "sinks.files": {"files", "network", "sinks"},
    "sources.fed": {"sources", "files", "framing", "network", "rx"},
    "sinks.outside": {"sinks", "files", "outside", "junctions", "bases"},  # bases: parts that are made later
}
"""Topics whose stages are in several rooms: what a user looks for under bytes are frames, compression and pipes of processes."""
METHODS = [
    (mixin, name, getattr(member, "__func__", member))
    for every in (Operators, SourceConstructors, SinkConstructors)
    for mixin in every.__mro__
    if mixin.__module__.startswith("streamactors.dsl.")
    for name, member in vars(mixin).items()
    if not name.startswith("_") and inspect.isfunction(getattr(member, "__func__", member))
]


def stages_of(function) -> list[type[GraphStage]]:
    """Return the stages that a method imports when it is called."""
    body = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    imported = [
        getattr(importlib.import_module(node.module or ""), alias.name)
        for node in ast.walk(body)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("streamactors.stages.")
        for alias in node.names
    ]
    return [each for each in imported if isinstance(each, type) and issubclass(each, GraphStage)]


@pytest.mark.parametrize(("mixin", "name", "function"), METHODS, ids=[name for _, name, _ in METHODS])
def test_the_stage_of_a_method_is_in_the_room_of_the_same_name(mixin, name, function):
    stages = stages_of(function)
    if not stages:
        return  # composed of others, or of the engine
    _, _, kind, topic = mixin.__module__.split(".")
    rooms = {stage.__module__.split(".")[2] for stage in stages}
    if kind == "operators":
        assert rooms & WIDER.get(topic, {topic})
    else:
        assert rooms & WIDER.get(f"{kind}.{topic}", {kind, topic})


def test_every_room_of_stages_has_its_topic():
    topics = {mixin.__module__.rsplit(".", 1)[1] for mixin, _, _ in METHODS}
    topics |= set().union(*WIDER.values())
    # hubs, stream refs and restarts are made by functions of their own
    assert ROOMS - {"__pycache__", "bases", "control", "hubs", "sinks", "sources", "stream_refs"} <= topics


def test_the_contract_of_an_operator_is_written_once_in_its_method():
    # stages of their own, of which methods are made: junctions of a GraphDSL, and the reading end of another run
    others = {Partition, Broadcast, HandOver}
    twice = {
        f"{name}: {stage.__name__}"
        for _, name, function in METHODS
        for stage in stages_of(function)
        if "Emits when" in (stage.__doc__ or "") and stage not in others
    }
    assert twice == set(), "write the four whens in the docstring of the method, and not in that of the stage"
