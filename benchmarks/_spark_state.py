"""The windows of spark_executors.py by Spark's transformWithState: one state per key, which holds the key's open windows.

It closes a window by the key's own time, without timers and without a watermark, so it does less than the windows that it is compared with.
The JSON is decoded by Spark's JVM."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

SIZE, GRACE = 10_000, 2_000
OUTPUT = "k string, start long, v long, n long"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Sums(StatefulProcessor):
    """Two sums per key and window of 10 s, given out when the window closes."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("open", "windows binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        import pandas

        state = self._state
        now, windows = pickle.loads(state.get()[0]) if state.exists() else (0, {})
        for frame in rows:
            for v, at in zip(frame["v"].tolist(), frame["at"].tolist(), strict=True):
                now = max(now, at)
                start = at // SIZE * SIZE
                if start + SIZE + GRACE > now:
                    total, n = windows.get(start, (0, 0))
                    windows[start] = total + v, n + 1
        closed = [(key[0], start, *windows.pop(start)) for start in sorted(windows) if start + SIZE + GRACE <= now]
        state.update((pickle.dumps((now, windows)),))
        yield pandas.DataFrame(closed, columns=["k", "start", "v", "n"])

    def close(self) -> None:
        pass


def windows_of(stream: Any) -> Any:
    """Return the windows of a stream with a column `value` of JSON."""
    rows = stream.selectExpr("from_json(CAST(value AS STRING), 'k string, v long, at long') AS r").select("r.*")
    return rows.groupBy("k").transformWithStateInPandas(Sums(), OUTPUT, "Append", "None")
