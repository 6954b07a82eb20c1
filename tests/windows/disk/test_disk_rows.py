"""The rows of a join on disk beside plain Python: keys that begin with each other, rows of one time, cuts, and what has expired."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from streamactors.codec import dumps
from streamactors.windows.state.disk.disk_rows import DiskRowStore
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.row_store import StoredRow, row_key
from streamactors.windows.state.store_log import ENTRY, Change

KEYS = ["k", "k1", "k1\x00", "", "é", b"\xff", *(f"key-{number}" for number in range(90))]
TIMES = st.sampled_from([0, 1, 2, 3, 300, 1 << 57])
LIMIT = 64


class RowsOnDisk(RuleBasedStateMachine):
    """Rows are put, taken and expire; a cut writes them; a restart forgets what is in memory."""

    path: Any
    memory: Memory

    def __init__(self) -> None:
        super().__init__()
        self.disk = TaskDisk(Rocks(self.path / str(id(self)), self.memory), ["rows"])
        self.store = self.opened()
        self.model: dict[tuple[Any, int, int], StoredRow] = {}
        self.gone: set[bytes] = set()
        self.sequence = 0
        self.expired_before = 0

    def opened(self) -> DiskRowStore:
        store = DiskRowStore(self.disk, "rows", lambda: 1)
        store.reach(1 << 57)
        return store

    @rule(keys=st.lists(st.sampled_from(KEYS), max_size=30), time=TIMES)
    def puts(self, keys: list[Any], time: int) -> None:
        time = max(time, self.expired_before)  # a join refuses a row that has expired
        for key in keys:
            row = StoredRow(key, time, self.sequence, f"row {self.sequence}")
            self.sequence += 1
            self.store.add(key, row)
            self.model[key, time, row.sequence] = row
        self.rests()

    @rule(key=st.sampled_from(KEYS), time=TIMES)
    def takes(self, key: Any, time: int) -> None:
        wanted = sorted(at for at in self.model if at[:2] == (key, time))
        taken = self.store.take(key, time)
        assert [row.sequence for row in taken] == [sequence for *_, sequence in wanted]
        self.gone |= {row_key(key, row) for row in taken}
        for at in wanted:
            del self.model[at]

    @rule(key=st.sampled_from(KEYS), first=TIMES, last=TIMES)
    def reads(self, key: Any, first: int, last: int) -> None:
        found = [(row.time, row.sequence) for row in self.store.between(key, first, last)]
        assert found == sorted(at[1:] for at in self.model if at[0] == key and first <= at[1] <= last)

    @rule()
    def rests(self) -> None:
        self.store.rest()
        if self.store.pressed:
            self.cuts(0)

    @rule(before=st.sampled_from([0, 0, 2, 301]))
    def cuts(self, before: int) -> None:
        assert list(self.store.expire(before)) == []
        self.expired_before = max(self.expired_before, before)
        expired = {row_key(at[0], row): at for at, row in self.model.items() if at[1] < before}
        rounds = 0
        while True:
            swept = {key for key, _ in self.store.sweep()}
            assert len(swept) <= 3 * LIMIT + 200
            for key in swept:
                self.model.pop(expired.pop(key, (None, 0, 0)), None)
            self.write(swept)
            rounds += 1
            if not expired or rounds > 100:
                break
        assert not expired

    def write(self, swept: set[bytes]) -> None:
        changes = [Change("rows", ENTRY + key, None) for key in self.gone | swept]
        changes += [Change("rows", ENTRY + row_key(at[0], row), dumps(row.fields())) for at, row in self.model.items()]
        self.gone = set()
        self.disk.take(changes)
        self.disk.commit()
        self.store.taken()

    @precondition(lambda self: self.model)
    @rule()
    def restarts(self) -> None:
        self.write(set())
        self.store = self.opened()

    @invariant()
    def memory_is_bounded(self) -> None:
        assert self.store.in_memory <= LIMIT + LIMIT // 2 + 62  # 30 keys and 30 rows come between two rests

    def teardown(self) -> None:
        self.disk.close()


def test_rows_on_disk_are_those_of_a_plain_dict(tmp_path_factory: pytest.TempPathFactory) -> None:
    RowsOnDisk.path, RowsOnDisk.memory = tmp_path_factory.mktemp("rows"), Memory(8 << 20)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        RowsOnDisk, settings=settings(max_examples=12, stateful_step_count=20, deadline=None)
    )
