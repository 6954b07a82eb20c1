"""The assignors by name.

Owner: the coordinator of consumer groups. Source: KIP-848."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streamactors.broker.group.assignors.group_spec import GroupSpec, Partitions
from streamactors.broker.group.assignors.range import assign_range
from streamactors.broker.group.assignors.uniform import assign_uniform
from streamactors.broker.group.assignors.uniform_mixed import assign_uniform_mixed

UNIFORM: Final = "uniform"
RANGE: Final = "range"


def _uniform(spec: GroupSpec) -> Mapping[str, Partitions]:
    return assign_uniform(spec) if spec.same_topics else assign_uniform_mixed(spec)


ASSIGNORS: Final[Mapping[str, Callable[[GroupSpec], Mapping[str, Partitions]]]] = {
    UNIFORM: _uniform,
    RANGE: assign_range,
}


def assign(name: str, spec: GroupSpec) -> Mapping[str, Partitions]:
    """Return the new target assignment of each member; a member that is left out has none. Raises AssignorFailed."""
    return ASSIGNORS[name](spec) if spec.members else {}
