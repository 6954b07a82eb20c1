"""Runs one Spark query on a thread of its own: starts it, waits for its end, and stops it on request.

The user's function is wrapped, because Spark reports a failure only as text: the exception itself is kept here. When a query is stopped, the
function's next call into Spark raises the JVM's InterruptedException. PySpark searches the error text for it with a pattern that overflows
the JVM's stack on the long text of Py4J, so the wrapper raises it again in the short form that PySpark recognises. It must be raised:
otherwise the batch would count as written."""

from __future__ import annotations

import inspect
import logging
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from streamactors.spark.bridge.reader import FORMAT
from streamactors.spark.errors import SparkQueryFailed, SparkSetupError
from streamactors.spark.files import said_by_java
from streamactors.spark.query.query_name import QueryName
from streamactors.spark.session.python import lacks
from streamactors.spark.session.session import JVM_GONE, is_lost, is_stopped

_log = logging.getLogger("streamactors.spark")

INTERRUPTED: Final = "java.lang.InterruptedException"
SHORT_INTERRUPT: Final = f"py4j.protocol.Py4JJavaError: An error occurred while calling o0.stop.\n: {INTERRUPTED}"

NO_WORKER: Final = "Python worker failed to connect back"
"""Spark gives a Python process that plans a read 10 s to start, whatever is configured; a busy machine may take longer."""

_OF_PYTHON: Final = re.compile(r"Python (worker|data source|process)|Cannot run program")
"""Errors after which the Python of Spark's processes is checked for what it lacks."""

RETRIES: Final = 10

LOOK_S: Final = 0.005
"""Between two triggers without records Spark rests for 10 ms."""

_SESSION_STOPPED: Final = "the Spark session was stopped while the query ran; run the graph again with another session: it continues from the checkpoint"
_JVM_GONE: Final = f"{JVM_GONE}; its graph continues from the checkpoint"
SESSION_LOOK_S: Final = 1
"""How often a query asks whether its session was stopped."""

SLOW_END_S: Final = 5.0
"""The query logs once what it waits for if it still runs this long after it was asked to end, or after its unbounded stream has ended."""

_STARTING: Final = threading.Lock()
"""PySpark starts its callback server with the first query: two queries at once would start two, and one of them would never be called."""

BatchFunction = Callable[[Any, int, str], object]


def batch_function(fn: Callable[..., object]) -> BatchFunction:
    """Return `fn` as a function of (frame, epoch, query id); `fn` gets the id as `query_id` if it declares that parameter."""
    try:
        declared = "query_id" in inspect.signature(fn).parameters
    except (TypeError, ValueError):  # a function of C code has no signature
        declared = False
    if declared:
        return lambda frame, epoch, query: fn(frame, epoch, query_id=query)
    return lambda frame, epoch, _: fn(frame, epoch)


class QueryRunner:
    """`on_started(query)` and `on_ended(error)` are called on the runner's thread."""

    def __init__(
        self,
        spark: Any,
        fn: BatchFunction,
        schema: Any,
        checkpoint: str,
        trigger: Mapping[str, Any],
        name: QueryName | None,
        *,
        prepare: Callable[[], dict[str, str]],
        on_started: Callable[[Any], None],
        on_ended: Callable[[BaseException | None], None],
    ) -> None:
        self._spark = spark
        self._fn = fn
        self._schema = schema
        self._checkpoint = checkpoint
        self._trigger = dict(trigger)
        self._name = name
        self._prepare = prepare
        self._on_started = on_started
        self._on_ended = on_ended
        self._query: Any = None
        self._user_error: BaseException | None = None
        self._stopping = False
        self._over = False
        self._slow_end: threading.Timer | None = None
        self._writing: int | None = None
        self._lock = threading.Lock()
        self._started = threading.Event()

    def name_otherwise(self, text: str) -> None:
        """Name the query, unless a name was given. Call it before the query starts: in `prepare`."""
        if self._name is None:
            self._name = QueryName(text, is_given=False)

    def start(self) -> None:
        """Start the query; returns at once."""
        threading.Thread(target=self._run, name="spark query", daemon=True).start()

    def ends_soon(self) -> None:
        """Start the time after which the query logs what it waits for. Call it when the query was asked to end; any thread, returns at once."""
        with self._lock:
            if self._over or self._slow_end is not None:
                return
            self._slow_end = threading.Timer(SLOW_END_S, self._say_what_is_waited_for)
            self._slow_end.daemon = True
            self._slow_end.start()

    def stop(self) -> None:
        """Stop the query; any thread, returns at once."""
        self.ends_soon()
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
            query = self._query
        if query is not None:
            threading.Thread(target=self._stop, args=(query,), name="stop spark query", daemon=True).start()

    def stop_between_batches(self) -> None:
        """Stop the query at a moment at which no batch runs; any thread, returns at once. The source must give no further batch."""
        self.ends_soon()
        threading.Thread(target=self._stop_between_batches, name="drain spark query", daemon=True).start()

    def _stop_between_batches(self) -> None:
        query = self._query
        if query is not None and self._started.is_set():
            try:
                while query.isActive and query.status["isTriggerActive"]:
                    threading.Event().wait(LOOK_S)
            except Exception as error:  # noqa: BLE001  # its JVM is gone; `_run` reports that
                _log.debug("waiting for a query: %s", error)
        self.stop()

    def _say_what_is_waited_for(self) -> None:
        writing = self._writing
        if self._over:
            return
        _log.warning(
            "checkpoint %s: the stream has ended, or the query was asked to end, %g s ago, and the query still runs; it waits for %s",
            self._checkpoint,
            SLOW_END_S,
            "Spark, which writes no batch now"
            if writing is None
            else f"the function that writes batch {writing}, and ends when that function returns",
        )

    @staticmethod
    def _stop(query: Any) -> None:
        try:
            query.stop()
        except Exception as error:  # noqa: BLE001  # it had ended, or its JVM is gone; `_run` reports that
            _log.debug("stopping a query: %s", error)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            options = self._prepare()
            attempt = 0
            while not self._await_end(options, attempt):
                attempt += 1
        except BaseException as raised:  # noqa: BLE001  # goes to the waiters of the query
            error = raised
            error = self.meant(raised)
        finally:
            with self._lock:
                self._over = True
                if self._slow_end is not None:
                    self._slow_end.cancel()
            self._on_ended(error)

    def _await_end(self, options: Mapping[str, str], attempt: int) -> bool:
        """Run the query to its end. Return False if it must be started again; the batch that it was given is still here. Raises its error."""
        self._started.clear()
        with _STARTING:
            query = self._start(options)
        with self._lock:
            self._query = query
            stop = self._stopping
        self._on_started(query)
        self._started.set()
        if stop:
            self._stop(query)
        try:
            while not query.awaitTermination(SESSION_LOOK_S):
                if (
                    self._spark.sparkContext._jsc is None
                ):  # without rows the query does not notice that its session was stopped
                    self._stop(query)
                    raise SparkQueryFailed(_SESSION_STOPPED)
        except SparkQueryFailed:
            raise
        except Exception as raised:
            if self._user_error is None and not self._stopping and self._session_is_stopped():
                raise SparkQueryFailed(
                    _SESSION_STOPPED
                ) from raised  # a query may fail of it in many ways before it ends
            if NO_WORKER not in str(raised) or self._user_error is not None or self._stopping or attempt >= RETRIES:
                raise
            if self._lacking(raised) is not None:
                raise  # another try would end alike
            _log.warning("Spark's Python process did not start within its limit of 10 s; the query is started again")
            return False
        return True

    def _session_is_stopped(self) -> bool:
        try:
            return is_stopped(self._spark)
        except Exception:  # noqa: BLE001  # the JVM has gone away, which has its own sentence
            return False

    def _lacking(self, raised: Exception) -> str | None:
        """Return what the Python of Spark's processes lacks, if that may have caused their failure."""
        return lacks(self._spark.sparkContext.pythonExec) if _OF_PYTHON.search(str(raised)) else None

    def frame(self, options: Mapping[str, str]) -> Any:
        """Return the streaming DataFrame whose batches are written."""
        reader = self._spark.readStream.format(FORMAT).schema(self._schema)
        for name, value in options.items():
            reader = reader.option(name, value)
        return reader.load()

    def _start(self, options: Mapping[str, str]) -> Any:
        writer = self.frame(options).writeStream.foreachBatch(self._call).option("checkpointLocation", self._checkpoint)
        if self._name is not None:
            writer = writer.queryName(self._name.among([query.name for query in self._spark.streams.active]))
        if self._trigger:
            writer = writer.trigger(**self._trigger)
        return writer.start()

    def _call(self, frame: Any, epoch: int) -> None:
        self._started.wait()  # the first batch may come before start() has returned, and `query.id` is known
        self._writing = epoch
        try:
            self._fn(frame, epoch, str(self._query.id))
        except BaseException as error:
            if INTERRUPTED in str(error):
                raise RuntimeError(SHORT_INTERRUPT) from None
            self._user_error = error
            if isinstance(error, Exception):
                raise
            # Py4J answers the JVM for an Exception only; after SystemExit, say, Spark would wait for the answer without end
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        finally:
            self._writing = None

    def meant(self, raised: BaseException) -> BaseException | None:
        """Return the error that caused an exception of Spark; None when the query was stopped on purpose."""
        failed = self._user_error
        if failed is not None:
            if is_lost(failed, self._spark):  # the function was in a call to Spark when the JVM died
                gone = SparkQueryFailed(_JVM_GONE)
                gone.__cause__ = failed
                return gone
            return failed
        if self._stopping and self._query is not None:
            return None
        from py4j.protocol import Py4JError, Py4JJavaError
        from pyspark.errors import PySparkException

        if isinstance(raised, PySparkException):
            lacking = self._lacking(raised)
            return self.failure(str(raised)) if lacking is None else SparkSetupError(lacking)
        if isinstance(raised, Py4JJavaError):  # the JVM answers: with an exception
            return SparkQueryFailed(f"checkpoint {self._checkpoint}: {said_by_java(raised)}")
        if isinstance(raised, (Py4JError, ConnectionError)):
            return SparkQueryFailed(_JVM_GONE)
        return raised

    def failure(self, text: str) -> BaseException:
        """Return the error of a query that failed inside Spark, given Spark's message."""
        return SparkQueryFailed(self._told(text))

    def _told(self, text: str) -> str:
        """Return the readable part of Spark's message: its first line, and the last line of a Python traceback in it."""
        if "No space left on device" in text or "Disk quota exceeded" in text:
            return (
                f"no space is left for checkpoint {self._checkpoint}, for what is written, or for Spark's own temporary files; "
                "free some and run the graph again, it continues at the checkpoint"
            )
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if not lines:
            return "the query failed without an error message"
        said = [line for line in lines if line.startswith(("RuntimeError:", "ConnectionError:", "Caused by:"))]
        return lines[0] if not said else f"{lines[0]} {said[-1]}"
