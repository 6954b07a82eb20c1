"""The public API as the README and the design promise it, and what importing it costs."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import reactivex.operators as rx

import streamactors
import streamactors.actors
import streamactors.windows
from streamactors import ActorSystem, Flow, GraphDSL, Sink, Source
from streamactors.actors.local_system import SystemStopped
from streamactors.lazy_names import homes_of

ROOT = Path(__file__).resolve().parents[2]


def test_a_stream_in_one_expression():
    n = (
        Source.range(0, 1_000_000)
        .map(lambda x: x + 1)
        .filter(lambda x: x % 2 == 0)
        .via(Flow.rx(rx.map(str)))  # any RxPY operators, as one stage
        .async_boundary()  # next stages run in their own actor
        .run_with(Sink.fold(0, lambda acc, _: acc + 1))
        .result(timeout=30)
    )
    assert n == 500_000


def test_a_graph_with_junctions():
    from streamactors import Balance, Broadcast, Merge, Partition, Zip

    with GraphDSL() as g:
        source, fan, join = g.add(Source.from_iterable(range(10))), g.add(Broadcast(2)), g.add(Merge(2))
        source >> fan
        fan.out(0) >> Flow.map(lambda x: x * 10) >> join.in_(0)
        fan.out(1) >> join.in_(1)
        join >> Sink.ignore()
    assert g.to_runnable().run() is None
    assert all(isinstance(part, type) for part in (Balance, Partition, Zip))


def test_every_name_is_there_and_listed():
    for name in streamactors.__all__:
        assert getattr(streamactors, name) is not None
        assert name in dir(streamactors)
    with pytest.raises(AttributeError, match="has no attribute 'Sauce'"):
        streamactors.Sauce


@pytest.mark.parametrize("name", ["", ".actors", ".kafka", ".spark", ".testing", ".windows"])
def test_a_package_offers_what_type_checkers_see(name):
    package = importlib.import_module(f"streamactors{name}")
    homes = homes_of(package.__name__)
    assert package.__all__ == sorted(homes)
    assert set(homes) <= set(dir(package))
    assert all(getattr(package, each) is not None for each in homes)
    with pytest.raises(AttributeError, match="has no attribute 'Sauce'"):
        package.Sauce


def test_a_package_in_a_zip_file_finds_its_names(tmp_path):
    with zipfile.ZipFile(tmp_path / "shipped.zip", "w") as shipped:
        for path in (ROOT / "streamactors").glob("*.py"):
            shipped.write(path, path.relative_to(ROOT))
    program = "import streamactors; print(streamactors.VirtualClock.__module__, streamactors.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "shipped.zip")}, capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.startswith("streamactors.clock ")
    assert "shipped.zip" in done.stdout


def test_module_paths_of_the_pages_before_go_on_working():
    from streamactors.engine.element import GraphStageLogic
    from streamactors.engine.marks import EXACT, EXACT_MEMORY
    from streamactors.engine.snapshot import snapshots

    assert GraphStageLogic is streamactors.GraphStageLogic
    assert (EXACT, EXACT_MEMORY) == (streamactors.EXACT, streamactors.EXACT_MEMORY)
    assert snapshots is streamactors.snapshots


def test_the_list_of_public_names_and_parameters_is_up_to_date():
    done = subprocess.run([sys.executable, "tools/public_api.py", "--check"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_public_api_stays_small_enough_to_learn():
    listed = (ROOT / "tests" / "public_api.txt").read_text().splitlines()
    assert len(listed) == len(set(listed)) <= 1_650, "one way to do a thing: remove a double before you add a name"


LOADED = """
import sys
{program}
print(*sorted({{name.split(".")[0] for name in sys.modules}} | {{name for name in sys.modules if name.startswith("streamactors.")}}))
"""


def loaded_by(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(program=program)], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_none_of_its_parts():
    names = loaded_by("import streamactors")
    assert {name for name in names if name.startswith("streamactors.")} == {"streamactors.lazy_names"}
    assert not names & {"thespian", "reactivex", "confluent_kafka", "asyncio"}


def test_streams_need_neither_kafka_nor_the_broker_nor_rx():
    names = loaded_by("from streamactors import Source, Sink; Source.range(3).run_with(Sink.to_list()).result(30)")
    assert "streamactors.dsl.source" in names
    assert not {
        name for name in names if name.startswith(("streamactors.broker", "streamactors.kafka", "streamactors.spark"))
    }
    assert not names & {"reactivex", "confluent_kafka", "kio", "pyspark", "numpy", "cramjam", "prometheus_client"}


def test_settings_of_kafka_name_a_state_and_load_no_windows():
    names = loaded_by("from streamactors.kafka import ConsumerSettings; ConsumerSettings('127.0.0.1:1')")
    assert "streamactors.state" in names
    assert not {name for name in names if name.startswith("streamactors.windows")}


@pytest.mark.parametrize("room", ["client", "reading", "sources", "writing", "committing", "controls"])
def test_a_room_of_the_connector_below_tables_loads_no_windows(room):
    names = loaded_by(
        "import importlib, pkgutil\n"
        f"room = importlib.import_module('streamactors.kafka.{room}')\n"
        "for found in pkgutil.walk_packages(getattr(room, '__path__', ()), f'{room.__name__}.'):\n"
        "    if not found.name.endswith('record_batches'):  # needs pyarrow\n"
        "        importlib.import_module(found.name)"
    )
    assert f"streamactors.kafka.{room}" in names
    assert not {name for name in names if name.startswith("streamactors.windows")}


def test_a_process_of_spark_that_plans_or_reads_a_topic_loads_no_stream_operator():
    names = loaded_by("import streamactors.spark.kafka_format.reading")
    assert "streamactors.kafka.client.ranges" in names
    assert not {name for name in names if name.startswith(("streamactors.dsl.", "streamactors.windows.operators"))}


def test_a_system_that_is_shut_down_says_so_when_a_stream_is_run_on_it():
    system = ActorSystem("over")
    system.shutdown()
    with pytest.raises(SystemStopped, match="cannot run a stream: actor system 'over' is shut down"):
        Source.single(1).run_with(Sink.head(), system)


def test_a_package_finds_its_names_though_another_thread_parses(monkeypatch):
    """python/cpython#106905: two threads that parse at once may get a SystemError."""
    parse, failures = ast.parse, iter([SystemError("AST constructor recursion depth mismatch"), None])

    def disturbed(source):
        failure = next(failures, None)
        if failure is not None:
            raise failure
        return parse(source)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert homes_of.__wrapped__("streamactors")["Source"]
