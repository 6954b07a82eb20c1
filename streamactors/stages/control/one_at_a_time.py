"""Flows that get one element at a time: what such a flow does for several elements at a time is lost, and a warning says so when the graph is built."""

from __future__ import annotations

import logging

from streamactors.engine.blueprint.modules import Module
from streamactors.engine.planning.plan import plan_of

_log = logging.getLogger("streamactors.engine")


def warn_of_lost_parallelism(operator: str, flow: Module) -> None:
    """Log a warning for each stage of `flow` that would work on several elements at a time; `operator` gives it one."""
    for node in plan_of(flow).nodes:
        stage = node.stage
        for name in ("parallelism", "breadth"):
            at_a_time = getattr(stage, name, None)
            if isinstance(at_a_time, int) and at_a_time > 1:
                way_out = (
                    "retry the calls instead: map_async(…, retry=…, timeout=…, dead_letters=…)"
                    if hasattr(stage, "retry")
                    else f"write map_async({at_a_time}, …, retry=…) for the part that fails"
                )
                _log.warning(
                    "%s runs one element at a time through its flow, so stage %s, whose %s is %d, never works on more than one; for %d at a "
                    "time %s",
                    operator,
                    node.label,
                    name,
                    at_a_time,
                    at_a_time,
                    way_out,
                )
