"""What a store of a running graph asks of its own partitions, and when it asks other instances."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamactors.actors.futures import StreamFuture
from streamactors.windows.stage.queryable_store import QueryableStore
from streamactors.windows.stage.store_reads import RunStores
from streamactors.windows.state.reads import StoreEntry, StoreRequest


@pytest.mark.parametrize(("others", "local"), [(False, False), (False, True), (True, False), (True, True)])
def test_only_who_has_others_to_ask_may_have_no_partition_itself(others: bool, local: bool) -> None:
    here: list[bool] = []
    elsewhere: list[str] = []

    def read(
        name: str, request: StoreRequest, *, dirty: bool, none_assigned_ok: bool
    ) -> StreamFuture[list[StoreEntry]]:
        here.append(none_assigned_ok)
        found: StreamFuture[list[StoreEntry]] = StreamFuture(name)
        found.set_result([])
        return found

    def ask(name: str, request: StoreRequest, *, dirty: bool) -> list[StoreEntry]:
        elsewhere.append(name)
        return []

    peers: Any = SimpleNamespace(ask=ask) if others else None
    stores = SimpleNamespace(stage_of=lambda name: SimpleNamespace(read=read, ordered=list), peers=peers)
    store = QueryableStore("counts", cast("RunStores", stores))
    assert store.ask(StoreRequest("range"), local=local).result(10) == []
    asks_others = others and not local
    assert here == [asks_others]
    assert elsewhere == ["counts"] * asks_others
