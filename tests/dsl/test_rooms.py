"""Where an operator is: its method in the mix-in of a topic, its stage in the room of stages of the same name."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import streamactors.stages
from streamactors.dsl.contract import stage_of
from streamactors.dsl.operators.every import Operators
from streamactors.dsl.sinks.every import SinkConstructors
from streamactors.dsl.sources.every import SourceConstructors

ROOMS = {path.name for path in Path(streamactors.stages.__file__).parent.iterdir() if path.is_dir()}
WIDER = {
    "bytes": {"framing", "compression", "network"},
    "rows": {"framing", "transform"},
    "errors": {"errors", "control"},  # `retry` runs a flow inside, as the restarts of control do
    "sources.files": {"files", "network", "sources"},
    "sinks.files": {"files", "network", "sinks"},
    "sources.fed": {"sources", "files", "framing", "network"},
    "sinks.outside": {"sinks", "files", "outside"},
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


@pytest.mark.parametrize(("mixin", "name", "function"), METHODS, ids=[name for _, name, _ in METHODS])
def test_the_stage_of_a_method_is_in_the_room_of_the_same_name(mixin, name, function):
    stage = stage_of(function)
    if stage is None or not stage.__module__.startswith("streamactors.stages."):
        return  # composed of others, or of the engine
    _, _, kind, topic = mixin.__module__.split(".")
    room = stage.__module__.split(".")[2]
    if kind == "operators":
        assert room in WIDER.get(topic, {topic})
    else:
        assert room in WIDER.get(f"{kind}.{topic}", {kind, topic})


def test_every_room_of_stages_has_its_topic():
    topics = {mixin.__module__.rsplit(".", 1)[1] for mixin, _, _ in METHODS}
    topics |= set().union(*WIDER.values())
    # hubs, stream refs and restarts are made by functions of their own
    assert ROOMS - {"__pycache__", "bases", "control", "hubs", "sinks", "sources", "stream_refs"} <= topics


def test_a_method_has_the_contract_of_its_stage():
    for _, name, function in METHODS:
        stage = stage_of(function)
        if stage is not None and "Emits when" in (stage.__doc__ or ""):
            assert "Emits when" in function.__doc__, name
