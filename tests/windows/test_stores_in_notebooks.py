"""Tables and stores as notebooks show them: some rows, at once, and a sentence where there are none."""

from __future__ import annotations

from streamactors import ActorSystem, Keep, KillSwitches, Sink, Source, Topics
from streamactors.mime_bundles import MOST_ROWS
from streamactors.windows import Record
from streamactors.windows.stage import store_shown
from streamactors.windows.stage.queryable_store import QueryableStore
from streamactors.windows.stage.store_reads import stores_of
from streamactors.windows.state.reads import ShownEntries, StoreEntry, StoreRequest
from tests.actors.eventually import eventually

HOSTILE = "<script>alert(1)</script>\x1b[31m"


def test_a_table_shows_its_rows_while_its_topology_runs() -> None:
    rows = [Record(f"{n:03}{HOSTILE}", {"n": n}, n) for n in range(300)]
    topics = Topics.in_memory({"people": Source.from_iterable(rows).concat(Source.never())})
    table = topics.table("people").map_values(str, name="texts-of-a-notebook")
    waits = "no run in this process has it; it shows its rows while its topology runs"
    assert table._repr_mimebundle_() == {"text/plain": f"table texts-of-a-notebook: {waits}"}
    with ActorSystem() as system:
        switch = topics.source(table).via_mat(KillSwitches.single(), Keep.right).to(Sink.ignore()).run(system)
        eventually(lambda: "the first 50 rows" in table._repr_mimebundle_()["text/plain"])
        bundle = table._repr_mimebundle_()
        assert bundle["text/html"].count("<tr>") == MOST_ROWS + 1
        assert "<script" not in bundle["text/html"]
        assert "\x1b" not in bundle["text/plain"]
        (run,) = system.streams()
        store = QueryableStore("texts-of-a-notebook", stores_of(run))
        assert store._repr_mimebundle_().keys() == {"text/plain", "text/html"}
        everything = StoreRequest("range")
        eventually(lambda: len(store.ask(everything, dirty=True).result(30)) == 300)  # only what is shown is bounded
        found = store.ask(everything, dirty=True).result(30)
        assert found._repr_mimebundle_()["text/plain"].startswith("300 entries\nkey\tvalue\ttimestamp\n")  # type: ignore[attr-defined]
        switch.shutdown()
        eventually(lambda: not system.streams())
        assert "the store texts-of-a-notebook is gone" in store._repr_mimebundle_()["text/plain"]
    assert waits in table._repr_mimebundle_()["text/plain"]


def test_entries_are_a_list_and_show_the_columns_that_are_used() -> None:
    entries = ShownEntries([StoreEntry("a", 1)])
    assert entries == [StoreEntry("a", 1)]
    assert entries._repr_mimebundle_()["text/plain"] == "1 entry\nkey\tvalue\na\t1"
    windowed = ShownEntries([StoreEntry("a", 1, 5, 0, 10), StoreEntry("b", 2)])
    assert windowed._repr_mimebundle_()["text/plain"].splitlines()[1] == "key\tvalue\ttimestamp\tstart\tend"


def test_a_stage_that_does_not_answer_is_not_waited_for(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    class Busy:
        def read(self, name, request, *, dirty, most):  # type: ignore[no-untyped-def]
            from streamactors import StreamFuture

            assert (dirty, most) == (True, MOST_ROWS + 1)
            return StreamFuture("store")

    monkeypatch.setattr(store_shown, "WAIT_S", 0.01)
    assert "store counts: no answer within 0.01 s" in store_shown.shown_store("counts", Busy())["text/plain"]  # type: ignore[arg-type]
