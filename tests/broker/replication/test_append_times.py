"""The times of the newest appends are bounded, and noted while somebody asks."""

from __future__ import annotations

from streamactors.broker.replication.append_times import MOST_NOTED, WANTED_MS, AppendTimes


def test_a_record_has_the_time_of_its_batch():
    times = AppendTimes()
    assert times.of(0, 1_000) is None
    for base, now_ms in ((10, 1_000), (13, 1_000), (20, 1_002), (30, 1_005)):
        assert times.note(base, now_ms)
    assert [times.of(offset, 1_006) for offset in (9, 10, 14, 19, 20, 29, 30, 99)] == [
        None, 1_000, 1_000, 1_000, 1_002, 1_002, 1_005, 1_005
    ]  # fmt: skip


def test_what_another_leader_has_truncated_is_forgotten():
    times = AppendTimes()
    times.note(10, 1_000)
    times.note(15, 1_100)
    times.note(12, 1_400)
    assert [times.of(offset, 1_500) for offset in (10, 12, 15)] == [None, 1_400, 1_400]


def test_the_newest_are_kept_and_nothing_is_noted_when_nobody_asks():
    times = AppendTimes()
    times.of(0, 0)
    for n in range(5 * MOST_NOTED):
        wanted = times.note(n, n * 100)
        assert wanted == (n * 100 < WANTED_MS)
    assert len(times._noted) == MOST_NOTED
    assert times.of(4 * MOST_NOTED - 1, 0) is None
    assert times.of(4 * MOST_NOTED, 0) == 400 * MOST_NOTED
