"""Graphs as SVG: boxes that do not overlap, lines that lead forward, and names that are nothing but text."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors import ActorSystem, Flow, Keep, KillSwitches, Sink, Source, snapshots
from streamactors.engine.planning.layers import Layout, layers_of
from streamactors.engine.planning.picture import Box, Line
from streamactors.engine.planning.svg import MOST_BOXES, WIDEST, svg
from tests.test_mime_bundles import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    count = draw(st.integers(1, 12))
    node = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(node, node).filter(lambda edge: edge[0] != edge[1]), max_size=20))


@given(graphs())
def test_layers_lead_forward_where_there_is_no_cycle(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = graph
    acyclic = [(min(edge), max(edge)) for edge in edges]
    layer = layers_of(count, acyclic)
    assert all(layer[source] < layer[target] for source, target in acyclic)
    assert min(layer) >= 0
    cyclic = layers_of(count, edges)
    assert len(cyclic) == count
    assert all(0 <= each < count for each in cyclic)


@given(graphs(), st.data())
def test_no_two_boxes_overlap_and_no_line_passes_through_one(
    graph: tuple[int, list[tuple[int, int]]], data: st.DataObject
) -> None:
    count, edges = graph
    sizes = data.draw(st.lists(st.floats(1, 300), min_size=count, max_size=count))
    layout = Layout(count, edges, sizes, 10.0)
    for way, edge in zip(layout.ways, edges, strict=True):
        assert (way[0], way[-1]) == (layout.places[edge[0]], layout.places[edge[1]])
        for layer, across in way[1:-1]:
            for node, (there, at) in enumerate(layout.places):
                assert there != layer or abs(across - at) >= sizes[node] / 2 + 9.9
    for one in range(count):
        for other in range(one):
            (layer, across), (there, at) = layout.places[one], layout.places[other]
            assert layer != there or abs(across - at) >= (sizes[one] + sizes[other]) / 2 + 9.9


def texts(picture: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text(name: str) -> None:
    graph = Source.range(3).named(name).async_boundary().map(str).named(name).to(Sink.ignore().named(name))
    bundle = graph._repr_mimebundle_()
    root = ElementTree.fromstring(bundle["image/svg+xml"])  # not well-formed: an error
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= {
        "svg",
        "title",
        "rect",
        "g",
        "text",
        "path",
        "polygon",
    }
    assert not any(attribute.startswith("on") for each in root.iter() for attribute in each.attrib)
    picture = svg([Box(0, name, 0, name, "works"), Box(1, name, 1)], [Line(0, 1, name)])
    assert picture is not None
    ElementTree.fromstring(picture)


def test_a_short_graph_leads_to_the_right_and_a_long_one_down() -> None:
    short = Source.range(3).map(str).named("words").async_boundary().grouped(2).to(Sink.ignore())
    picture = short.to_svg() or ""
    assert set(texts(picture)) == {
        "range+words",
        "async_boundary",
        "boundary",
        "grouped",
        "ignore",
        "island 0",
        "island 1",
    }
    size = ElementTree.fromstring(picture)
    assert float(size.attrib["width"]) > float(size.attrib["height"])
    long = Source.range(3)
    for number in range(20):
        long = long.grouped(1).map(lambda group: group[0]).named(f"step {number}")
    tall = ElementTree.fromstring(long.to(Sink.ignore()).to_svg() or "")
    assert float(tall.attrib["width"]) < WIDEST < float(tall.attrib["height"])


def test_every_part_draws_itself_and_says_why_if_it_cannot() -> None:
    for part in (Source.range(3).map(str), Flow.map(str).grouped(3), Sink.ignore(), Source.range(3).to(Sink.ignore())):
        bundle = part._repr_mimebundle_()
        assert bundle["text/plain"] == repr(part)
        ElementTree.fromstring(bundle["image/svg+xml"])
    boxes = [Box(n, "x", 0) for n in range(MOST_BOXES + 1)]
    assert svg(boxes, []) is None
    assert svg([], []) is None
    many = Source.range(3)
    for _ in range(MOST_BOXES):
        many = many.grouped(1)
    assert many._repr_mimebundle_() == {"text/plain": f"{many!r}: too many stages to draw"}


def test_a_running_graph_shows_what_its_stages_do_and_its_plan_when_it_has_ended() -> None:
    with ActorSystem() as system:
        graph = (
            Source.repeat(1)
            .via_mat(KillSwitches.single(), Keep.right)
            .map(str)
            .named("words")
            .to_mat(Sink.never(), Keep.left)
        )
        assert "waits" not in graph._repr_mimebundle_()["text/plain"]
        switch = graph.run(system)
        other = Source.repeat(1).to(Sink.never()).run(system)
        del other
        bundle = graph._repr_mimebundle_()
        assert "a running graph of" in bundle["text/plain"]
        assert "waits for demand" in bundle["text/plain"]
        assert any("waits for demand" in text for text in texts(bundle["image/svg+xml"]))
        assert any("words" in text for text in texts(bundle["image/svg+xml"]))
        shots = snapshots(system)
        assert len(shots) == 2
        assert all(shot.to_svg() for shot in shots)
        second = graph.run(system)
        assert "one of 2 runs" in graph._repr_mimebundle_()["text/plain"]
        switch.shutdown()
        second.shutdown()
    assert graph._repr_mimebundle_()["text/plain"] == repr(graph)
