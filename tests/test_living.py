"""The set of what is alive is read by one thread while others add to it."""

from __future__ import annotations

import gc
import sys
import threading
from collections import deque

from streamactors.living import Living


class One:
    """An object that can be referred to weakly."""


def test_objects_leave_when_they_are_collected_or_discarded():
    living: Living[One] = Living()
    one, other, third = One(), One(), One()
    for each in (one, other, third, one):
        living.add(each)
    assert set(living) == {one, other, third}
    assert len(living) == 3
    del other
    gc.collect()
    assert set(living) == {one, third}
    living.discard(third)
    living.discard(third)
    assert list(living) == [one]
    living.clear()
    assert not len(living)


def test_a_reader_meets_threads_that_add():
    """`list(weakref.WeakSet)` raised "Set changed size during iteration" here."""
    living: Living[One] = Living()
    kept: deque[One] = deque(maxlen=500)
    stop = threading.Event()

    def add() -> None:
        while not stop.is_set():
            one = One()
            living.add(one)
            kept.append(one)

    threads = [threading.Thread(target=add) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        while len(living) < 100:
            pass
        for _ in range(2_000):
            assert all(isinstance(one, One) for one in living)
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        for thread in threads:
            thread.join()
