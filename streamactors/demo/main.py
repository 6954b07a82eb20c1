"""The demo from beginning to end: a broker in its own process, Spark, the steps, the check, tables and pictures."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from streamactors import ActorSystem, LatencyMeter
from streamactors.broker import Cluster
from streamactors.broker.errors import BrokerStartError
from streamactors.collector import collecting_seldom
from streamactors.dashboard.serving import serve
from streamactors.demo import topics
from streamactors.demo.data import DemoError, flights_frame
from streamactors.demo.folder import Folder
from streamactors.demo.showing.progress import Progress
from streamactors.demo.showing.report import show_report
from streamactors.demo.steps import STEPS, Job

T = TypeVar("T")
_BROKER_FREE_SECONDS: Final = 30.0
_SPARK_UP_SECONDS: Final = 60.0
_JVM_GONE_SECONDS: Final = 30.0


def run_demo(into: Path, per_second: int | None = None, dashboard: int | None = None) -> bool:
    """Run the demo in a folder, or continue an interrupted run. Return whether all totals are right. `dashboard`: serve a live page at this port."""
    folder = Folder(into)
    folder.prepare()
    with ExitStack() as undo:
        progress = undo.enter_context(Progress(told=lambda step, done, total: tell(step, done, total)))
        undo.enter_context(folder.locked(progress.say))
        undo.enter_context(_terminable())
        undo.enter_context(collecting_seldom())
        going_on = folder.begin()
        undo.enter_context(_temporary_files_in(folder.temporary))
        progress.say(
            f"going on in {folder.path}"
            if going_on
            else f"a year of flights from New York: broker -> stream graphs -> Spark, into {folder.path}"
        )
        flights = beside(flights_frame)
        cluster = undo.enter_context(_broker(folder))
        if dashboard is not None:
            page = undo.enter_context(serve(port=dashboard, name="demo", broker=cluster))
            progress.say(f"live page: {page.url}")
        running: dict[str, Any] = {"pid": os.getpid(), "broker": cluster.pid}

        def tell(step: str, done: int, total: int) -> None:
            folder.write_run({**running, "step": step, "done": done, "total": total})

        job = Job(folder, cluster.bootstrap_servers, progress, flights, beside(_spark, folder), per_second)
        undo.callback(_stop, job.spark)
        undo.enter_context(_interruptions_told(progress))
        latency = undo.enter_context(LatencyMeter(ActorSystem.default()))
        for topic, partitions in topics.PARTITIONS.items():
            if not going_on:
                cluster.create_topic(topic, partitions, topics.CONFIG)
        for name, step in STEPS.items():
            if name not in folder.steps_done():
                began = time.monotonic()
                records = step(job)
                folder.step_done(name, {"records": records, "seconds": round(time.monotonic() - began, 2)})
        right = show_report(job, latency)
        folder.step_done("report", {})
    return right


def beside(fn: Callable[..., T], *arguments: Any) -> Future[T]:
    """Call a function in a thread of its own."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(fn(*arguments))
        except BaseException as error:  # noqa: BLE001  # raised by result()
            future.set_exception(error)

    threading.Thread(target=run, name=f"demo-{fn.__name__}", daemon=True).start()
    return future


def _broker(folder: Folder) -> Cluster:
    """Start the broker. After a crash the old broker may hold the folder for a moment longer."""
    until = time.monotonic() + _BROKER_FREE_SECONDS
    while True:
        try:
            return Cluster(process=True, data=folder.broker).start()
        except BrokerStartError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def _spark(folder: Folder) -> Any:
    from streamactors.spark import spark_session

    java = (
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",  # the JVM lives for half a minute: what its second compiler would gain costs it 12 s of CPU
        f"-Djava.io.tmpdir={folder.temporary}",
        f"-Dderby.system.home={folder.temporary}",
    )
    return spark_session(
        "streamactors-demo",
        **{
            "spark.local.dir": str(folder.temporary),
            "spark.sql.warehouse.dir": str(folder.temporary / "warehouse"),
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": " ".join(java),
        },
    )


def _stop(spark: Future[Any]) -> None:
    """Stop Spark, if it came up, and wait for the end of its JVM, which deletes its temporary files."""
    try:
        session = spark.result(timeout=_SPARK_UP_SECONDS)
    except Exception:  # noqa: BLE001  # the step that needed Spark has raised the error
        return
    gateway = type(session.sparkContext)._gateway
    try:
        session.sparkContext._accumulatorServer.shutdown()  # stopped after the JVM, it tells that the JVM has hung up
        session.stop()
        gateway.shutdown()
    except OSError:
        pass  # the JVM has gone already
    jvm: subprocess.Popen[bytes] = gateway.proc
    if jvm.stdin is not None:
        jvm.stdin.close()  # what it waits for
    try:
        jvm.wait(_JVM_GONE_SECONDS)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does: in order."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _interruptions_told(progress: Progress) -> Iterator[None]:
    """Print why the demo needs time to stop."""
    try:
        yield
    except KeyboardInterrupt:
        progress.say("stopping Spark and the broker; the same command continues from here")
        raise


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Keep temporary files and matplotlib's fonts out of the rest of the machine."""
    told = {"TMPDIR": str(folder), "MPLCONFIGDIR": str(folder / "matplotlib")}
    before = {name: os.environ.get(name) for name in told}
    temporary = tempfile.tempdir
    os.environ.update(told)
    tempfile.tempdir = None
    try:
        yield
    finally:
        tempfile.tempdir = temporary
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


__all__ = ["DemoError", "run_demo"]
