"""Queries of Spark's own, which no QueryRunner starts again when a Python process of Spark has come up too late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.errors import StreamingQueryException

from streamactors.spark.query.runner import NO_WORKER, RETRIES

END_S = 200.0


def finished(start: Callable[[], Any]) -> Any:
    """Return the query that `start` has started, when it has ended. Raises its error.

    Spark gives a Python process that plans a read 10 s to start. On a busy machine it may need more, and the query is started again."""
    for attempt in range(RETRIES + 1):
        query = start()
        try:
            assert query.awaitTermination(END_S)
        except StreamingQueryException as error:
            if NO_WORKER not in str(error) or attempt == RETRIES:
                raise
        else:
            break
    return query
