"""The least Python that gives the final rows of tumbling, hopping, session and sliding windows: what the windows are measured beside.

A dict for the state, a heap of (end, key bytes), the next due time cached; no rules beyond that, no context of a row, no metrics,
no changelog."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable

from streamactors.windows import (
    Record,
)

GRACE = 2_000
NEVER = 1 << 62
Results = list[tuple[str, int, int, int]]


def bare_time(size: int, advance: int) -> Callable[[list[Record]], Results]:
    def loop(rows: list[Record]) -> Results:
        state: dict[tuple[str, int], list[int]] = {}
        heap: list[tuple[int, bytes, str, int]] = []
        results: Results = []
        stream_time, due = -1, NEVER
        for row in rows:
            at, key = row.timestamp, row.key
            if at > stream_time:
                stream_time = at
            start = max(0, at - size + advance) // advance * advance
            while start <= at:
                if start + size + GRACE > stream_time:
                    entry = state.get((key, start))
                    if entry is None:
                        state[key, start] = [1, at]
                        heapq.heappush(heap, (start + size, key.encode(), key, start))
                        if start + size + GRACE < due:
                            due = start + size + GRACE
                    else:
                        entry[0] += 1
                        if at > entry[1]:
                            entry[1] = at
                start += advance
            if stream_time >= due:
                while heap and heap[0][0] + GRACE <= stream_time:
                    end, _, closed, first = heapq.heappop(heap)
                    results.append((closed, first, end, state.pop((closed, first))[0]))
                due = heap[0][0] + GRACE if heap else NEVER
        return results

    return loop


def bare_sessions(gap: int) -> Callable[[list[Record]], Results]:
    wait = gap + GRACE

    def loop(rows: list[Record]) -> Results:
        state: dict[str, list[list[int]]] = {}
        heap: list[tuple[int, bytes, str, list[int]]] = []
        results: Results = []
        stream_time = -1
        for row in rows:
            at, key = row.timestamp, row.key
            if at > stream_time:
                stream_time = at
            session = [at, at, 1]
            kept = []
            for other in state.get(key, ()):
                if other[1] >= at - gap and other[0] <= at + gap:
                    session[0] = min(session[0], other[0])
                    session[1] = max(session[1], other[1])
                    session[2] += other[2]
                    other[2] = 0
                else:
                    kept.append(other)
            if session[1] < stream_time - wait:
                continue
            kept.append(session)
            state[key] = kept
            heapq.heappush(heap, (session[1], key.encode(), key, session))
            while heap and heap[0][0] < stream_time - wait:
                end, _, closed, session = heapq.heappop(heap)
                if session[2]:
                    results.append((closed, session[0], end, session[2]))
                    state[closed].remove(session)
        return results

    return loop


def bare_sliding(difference: int) -> Callable[[list[Record]], Results]:
    def loop(rows: list[Record]) -> Results:
        state: dict[str, tuple[list[int], dict[int, list[int]]]] = {}  # starts in order, start -> [count, newest]
        heap: list[tuple[int, bytes, str]] = []
        results: Results = []
        stream_time = -1
        for row in rows:
            at, key = row.timestamp, row.key
            if at > stream_time:
                stream_time = at
            limit = stream_time - GRACE
            if at + difference < limit:
                continue
            if key not in state:
                state[key] = ([], {})
            starts, windows = state[key]
            new: list[tuple[int, int, int]] = []
            if at < difference:
                right = None
                for start in starts[bisect.bisect_left(starts, 1) : bisect.bisect_right(starts, at)]:
                    right = list(windows[start])
                    if start + difference >= limit:
                        windows[start][0] += 1
                        windows[start][1] = max(windows[start][1], at)
                shared = windows.get(0)
                right = right or (list(shared) if shared else None)
                if right and right[1] > at and at + 1 not in windows:
                    new.append((at + 1, right[0], right[1]))
                if shared and shared[1] < at and shared[1] + 1 not in windows:
                    new.append((shared[1] + 1, 1, at))
                if shared:
                    shared[0] += 1
                    shared[1] = max(shared[1], at)
                else:
                    new.append((0, 1, at))
            else:
                right = left = previous = None
                complete = False
                place = bisect.bisect_right(starts, at) - 1
                while place >= 0 and starts[place] >= at - 2 * difference:
                    start = starts[place]
                    window = windows[start]
                    if start + difference < at:
                        left, previous = window[0], window[1]
                        break
                    if start + difference > at:
                        right = right or list(window)
                    elif window[1] == at:
                        complete = True
                    else:
                        previous = window[1]
                    if start + difference >= limit:
                        window[0] += 1
                        window[1] = max(window[1], at)
                    place -= 1
                if not complete:
                    if previous is not None and previous + 1 not in windows and previous + 1 + difference >= at:
                        new.append((previous + 1, 1, at))
                    if at - difference not in windows:
                        near = previous is not None and previous >= at - difference and left is not None
                        new.append((at - difference, (left if near else 0) + 1, at))  # type: ignore[operator]
                    if right and right[1] > at and at + 1 not in windows:
                        new.append((at + 1, right[0], right[1]))
            for start, count, newest in new:
                if start + difference >= limit and start not in windows:
                    windows[start] = [count, newest]
                    bisect.insort(starts, start)
                    heapq.heappush(heap, (start, key.encode(), key))
            while heap and heap[0][0] + difference < limit:
                start, _, closed = heapq.heappop(heap)
                results.append((closed, start, start + difference, state[closed][1][start][0]))
                starts, windows = state[closed]
                if starts[0] < limit - 4 * difference:
                    cut = bisect.bisect_left(starts, limit - 3 * difference)
                    for old in starts[:cut]:
                        del windows[old]
                    del starts[:cut]
        return results

    return loop
