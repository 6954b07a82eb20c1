"""How a table of a topology finds its rows in a run: the topology knows no runs, so the stage that runs it says how.

Owner: this module; a stage's module sets the finder when it is loaded, and without a stage there is no run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streamactors.mime_bundles import Bundle

finders: Final[list[Callable[[str], Bundle | None]]] = []
"""Each returns what a notebook shows of the table of this name, None where no run has it."""


def shown_table(name: str) -> Bundle:
    """Return the rows of a table in a run that has not ended, or how to get them."""
    for find in finders:
        found = find(name)
        if found is not None:
            return found
    from streamactors.mime_bundles import said_bundle

    return said_bundle(f"table {name}: no run in this process has it; it shows its rows while its topology runs")
