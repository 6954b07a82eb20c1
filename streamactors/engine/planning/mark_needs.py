"""Whether the stages between each reader of marks and the sources meet the reader's needs; the errors name the stage and the way out."""

from __future__ import annotations

from collections.abc import Callable

from streamactors.engine.blueprint.graph import Edge, StageNode
from streamactors.engine.boundary import BoundaryIn
from streamactors.engine.marks.marks import Handling, Needs
from streamactors.engine.stage import GraphStage
from streamactors.errors import BuildError


def check_needs(
    nodes: list[StageNode],
    readers: list[int],
    outgoing: dict[int, list[Edge]],
    incoming: dict[int, list[Edge]],
    looping: set[int],
) -> None:
    """Raise BuildError for the first stage that does not give a reader what it needs. `looping`: the nodes in feedback loops."""
    for reader in readers:
        needs = nodes[reader].stage.traits.needs
        if needs is None or (needs.if_from is not None and not _stems_from(reader, needs.if_from, nodes, incoming)):
            continue
        is_source = nodes[reader].stage.traits.emits_marks
        _check_fused_source(nodes[reader], needs)
        seen = {reader}
        work = [reader]
        while work:
            here = work.pop()
            for (source, out_port), (target, in_port) in outgoing[here] if is_source else incoming[here]:
                other, in_port = (target, in_port) if is_source else (source, 0)
                stage = nodes[other].stage
                if (
                    is_source
                    and not any(stage.traits.marks_reach(in_port, port) for port in range(len(stage.shape.outlets)))
                    and stage.shape.outlets
                ):
                    continue
                if not is_source and not stage.traits.marks_reach(0, out_port):
                    continue
                if stage.shape.outlets and stage.shape.inlets:
                    _check_stage(nodes[other], stage.handling, needs, other in looping)
                for member in getattr(stage, "members", ()):  # of a worker process
                    _check_stage(member, member.stage.handling, needs, loops=False)
                _check_fused_source(nodes[other], needs)
                if needs.replays:
                    _check_replayable(nodes[other], needs)
                if other not in seen:
                    seen.add(other)
                    work.append(other)


def _stems_from(
    node: int, kind: Callable[[GraphStage], bool], nodes: list[StageNode], incoming: dict[int, list[Edge]]
) -> bool:
    """True when a source of a kind lies upstream of a node."""
    seen = {node}
    work = [node]
    while work:
        for (source, _), _ in incoming[work.pop()]:
            if source not in seen:
                seen.add(source)
                work.append(source)
    return any(nodes[i].stage.traits.emits_marks and kind(nodes[i].stage) for i in seen)


def _check_fused_source(node: StageNode, needs: Needs) -> None:
    """Check the steps that are fused into a source (engine/fusing/)."""
    steps = node.stage.traits.steps
    if steps is not None:
        _check_stage(node, steps, needs, loops=False)


def _check_replayable(node: StageNode, needs: Needs) -> None:
    stage = node.stage
    if not stage.shape.inlets and not stage.traits.emits_marks and not isinstance(stage, BoundaryIn):
        raise BuildError(
            f"{needs.reader} replays ranges after a crash, and source '{node.label}' cannot be replayed; "
            "write it to a topic in a graph of its own, and read that topic here"
        )
    if stage.traits.no_replay:
        raise BuildError(
            f"{needs.reader} sets once per run where its sources begin, and '{node.label}' {stage.traits.no_replay}"
        )


def _check_stage(node: StageNode, handling: Handling, needs: Needs, loops: bool) -> None:
    name = node.label
    if loops:
        raise BuildError(
            f"{needs.reader} cannot follow its elements through the feedback loop at stage '{name}'; "
            "end this run with through_topic(...) and begin another after it, or use two graphs"
        )
    if not handling.passes:
        because = node.stage.traits.opaque_because
        if because:
            raise BuildError(
                f"{needs.reader} cannot follow its elements through stage '{name}': {because}. "
                "Two other ways: put through_topic(…) before the stage; or declare rx(…, holds=False), if the pipeline keeps no element"
            )
        raise BuildError(
            f"{needs.reader} cannot follow its elements through stage '{name}', which does not declare how it treats marks; "
            "declare it (holds=False for an Rx pipeline that holds no elements, `handling` for a stage of your own), "
            "or put through_topic(...) before it"
        )
    if needs.exact and not handling.exact:
        raise BuildError(
            f"{needs.reader} needs exact cuts, and stage '{name}' blurs them; "
            "use map_async for map_async_unordered, put through_topic(...) after it, or use two graphs"
        )
    if needs.no_memory and handling.remembers:
        raise BuildError(
            f"{needs.reader} replays ranges, and stage '{name}' remembers earlier elements; "
            f"write its results with through_topic(...) and read that topic in a graph of its own{needs.instead}"
        )
