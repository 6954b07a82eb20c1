"""A query whose session is stopped ends: without rows Spark's query thread does not notice, and the run never ended."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from streamactors import ActorSystem, Keep, Source
from streamactors.spark import SparkSink
from streamactors.spark.errors import SparkQueryFailed


def test_a_query_whose_session_is_stopped_ends_with_a_sentence(spark: Any, tmp_path: Path) -> None:
    written = threading.Event()
    sink = SparkSink.foreach_batch(spark, lambda *_: written.set(), "n long", tmp_path / "ck")
    with ActorSystem("stopped") as system:
        rows = Source.range(0, 2).map(lambda n: (n,)).throttle(1, "1h")
        query = rows.to_mat(sink, Keep.right).run(system)
        assert written.wait(120)
        spark.stop()
        with pytest.raises(SparkQueryFailed, match="session was stopped while the query ran"):
            query.await_termination(60)
