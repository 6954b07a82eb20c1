"""The batches as the island and Spark's questions share them, without a Spark session: who is told that there is room."""

from __future__ import annotations

from typing import Any

from streamactors.engine.marks.ownership import Positions
from streamactors.spark.sink.batches import MicroBatches

ROWS = 10


class FastSource:
    """Stands in for the island and a source that always has rows: it meets all demand whenever it looks, with one mark behind the rows."""

    def __init__(self, *, looks_at_once: bool = True) -> None:
        self.batches = MicroBatches(
            ROWS,
            1_000,
            changed=self._changed,
            acknowledged=lambda _: None,
            others_behind=lambda _: False,
            when_others_done=lambda *_: None,
        )
        self.looks_at_once = looks_at_once
        self.place = 0

    def _changed(self) -> None:
        if self.looks_at_once:
            self.look()

    def look(self) -> None:
        """Meet the demand that there is."""
        rows = self.batches.room()
        if rows > 0:
            self.place += rows
            self.batches.add(f"rows to {self.place}", rows)
            self.batches.mark({"0/0": self.place}, {(1, "0/0"): (1, self.place)})

    def ask(self, start: int) -> tuple[Positions, bool]:
        """Spark's question for the batch that follows `start`."""
        return self.batches.latest({"0/0": start})

    def counts(self) -> dict[str, Any]:
        snapshot = self.batches.snapshot()
        return {name: snapshot[name] for name in ("given_rows", "gathered_rows")}


def test_the_next_batch_is_gathered_when_one_was_full_before_spark_asked() -> None:
    # full -> Spark asks -> the island looks before the batch is cut: no room -> cut: room, and nobody looked until Spark's next question
    source = FastSource()
    source.batches.begin({"0/0": 0}, None)
    source.look()
    assert source.ask(0) == ({"0/0": ROWS}, False)
    assert source.counts() == {"given_rows": ROWS, "gathered_rows": ROWS}


def test_the_next_batch_is_gathered_when_one_became_full_while_spark_waited() -> None:
    # Spark asks, nothing is there -> the island looks and fills the batch -> cut
    source = FastSource()
    source.batches.begin({"0/0": 0}, None)
    for batch in range(3):
        assert source.ask(batch * ROWS) == ({"0/0": (batch + 1) * ROWS}, False)
        assert source.counts() == {"given_rows": ROWS, "gathered_rows": ROWS}


def test_spark_asks_again_for_a_batch_that_it_has_and_no_third_one_is_gathered() -> None:
    source = FastSource()
    source.batches.begin({"0/0": 0}, None)
    for _ in range(3):
        assert source.ask(0) == ({"0/0": ROWS}, False)
    assert source.counts() == {"given_rows": ROWS, "gathered_rows": ROWS}
    source.looks_at_once = False
    assert source.ask(ROWS) == ({"0/0": 2 * ROWS}, False)
    assert source.counts() == {"given_rows": ROWS, "gathered_rows": 0}
