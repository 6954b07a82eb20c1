"""`streamactors run --trace`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from streamactors.broker import Cluster
from streamactors.cli.main import run
from streamactors.cli.trace_options import trace_arguments

PROGRAM = """
from streamactors import Source
from streamactors.kafka import Producer, ProducerRecord, ProducerSettings

records = Source.range(0, 100).map(lambda n: ProducerRecord("numbers", str(n)))
graph = records.to(Producer.plain_sink(ProducerSettings("{servers}", preflight_timeout_ms=60_000)))
"""


def test_options_about_traces_need_traces(module, capsys):
    name = module("graph = Source.single(1).to(Sink.ignore())\n")
    for options in (["--trace-stages"], ["--trace-ratio", "0.5"]):
        assert run(["run", f"{name}:graph", *options]) == 2
        assert "give --trace, too" in capsys.readouterr().err


def test_the_members_of_a_group_get_the_options():
    assert trace_arguments({"trace": None, "trace_ratio": None, "trace_stages": False}) == []
    given = {"trace": "otlp:http://x", "trace_ratio": 0.001, "trace_stages": True}
    assert trace_arguments(given) == ["--trace", "otlp:http://x", "--trace-ratio", "0.001", "--trace-stages"]


@pytest.mark.parametrize(
    ("options", "spans"), [(["--trace", "console"], 100), (["--trace", "console", "--trace-ratio", "0"], 0)]
)
def test_the_console_gets_a_line_of_json_per_span(tmp_path, options, spans):
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    program = tmp_path / "traced.py"
    with Cluster() as cluster:
        cluster.create_topic("numbers")
        program.write_text(PROGRAM.format(servers=cluster.bootstrap_servers))
        done = subprocess.run(
            [sys.executable, "-m", "streamactors.cli.main", "run", f"{program}:graph", *options],
            capture_output=True, text=True, check=True, timeout=100,
        )  # fmt: skip
    told = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [span["name"] for span in told] == ["send numbers"] * spans
    assert done.stdout == ""


def test_a_wrong_destination_is_one_sentence(module, capsys):
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    name = module("graph = Source.single(1).to(Sink.ignore())\n")
    assert run(["run", f"{name}:graph", "--trace", "jaeger:host"]) == 1
    captured = capsys.readouterr()
    assert "traces go to console, otlp or otlp:URL with an http or https URL, got 'jaeger:host'" in captured.err
    assert "Traceback" not in captured.err
