"""A store of a running graph as a notebook shows it: some of its entries, at once, or a sentence.

Committed reads may wait for the next commit, and all entries of a large store are too many: so what is there now is shown, up to MOST_ROWS entries."""

from __future__ import annotations

import time
from typing import Final

from streamactors.engine.island.run import all_runs
from streamactors.errors import UnknownStore
from streamactors.mime_bundles import MOST_ROWS, Bundle, said_bundle
from streamactors.windows.stage.store_reads import StageReads, stores_of
from streamactors.windows.state.reads import StoreRequest, entries_bundle
from streamactors.windows.state.running_tables import finders

WAIT_S: Final = 2.0
AGAIN_S: Final = 0.05


def shown_store(name: str, reads: StageReads) -> Bundle:
    """Return the entries of a store. A run that has just begun is waited for: it has no partition yet."""
    give_up = time.monotonic() + WAIT_S
    while True:
        try:
            found = reads.read(name, StoreRequest("range"), dirty=True, most=MOST_ROWS + 1).result(WAIT_S)
        except TimeoutError:
            return said_bundle(f"store {name}: no answer within {WAIT_S:g} s; its stage works on one chunk for so long")
        except UnknownStore as error:
            if reads.ended or time.monotonic() > give_up:
                return said_bundle(str(error))
            time.sleep(AGAIN_S)
        else:
            return entries_bundle(f"store {name}", found)


def running_table(name: str) -> Bundle | None:
    """Return the entries of a table in the newest run that has it; None if no run has."""
    for run in sorted(all_runs(), key=lambda each: -each.number):
        for reads in stores_of(run).stages:
            if name in reads.stores:
                return shown_store(name, reads)
    return None


finders.append(running_table)
