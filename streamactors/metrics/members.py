"""Metrics of the members of `streamactors run --processes N`, which the command adds to those of the members."""

from __future__ import annotations

from typing import Final

from streamactors.metric_family import gauge

UP: Final = gauge("streamactors_member_up", ("member",), "Whether the member runs: 1, else 0", "it is 0 for a minute")
RESTARTS: Final = gauge("streamactors_member_restarts", ("member",), "Restarts of the member in a row", "it is above 3")
FAMILIES: Final = (UP, RESTARTS)
