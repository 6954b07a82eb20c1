"""Every Python block of the README and the docs runs as written; the blocks of one page share their names."""

from __future__ import annotations

import contextlib
import io
import logging
import re
from functools import partial

import pytest

from docs import generate
from streamactors.broker import Cluster
from streamactors.engine.island.run import all_runs
from streamactors.kafka.client.connection import ClientConnection
from streamactors.kafka.controls.control import RUNNING
from tests.actors.eventually import eventually
from tests.docs.pages import PAGES, ROOT, blocks, outputs

THE_USERS_BROKER = "localhost:9092"


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """On a busy machine the first answer of a broker may take longer than a user would like to wait."""
    monkeypatch.setattr(ClientConnection, "silence_ms", 60_000)


@pytest.fixture(autouse=True)
def the_log_is_as_before():
    """A page about logging replaces the handlers of the process: those of the watch are among them."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def consumers_end_before_their_broker(monkeypatch):
    """A page closes its broker as soon as it has its results, when the last commit of a consumer may be on its way. In a program the consumer
    then ends with the process. Here it would look for its broker in later tests."""
    close = Cluster.close

    def closes(cluster):
        with contextlib.suppress(AssertionError):  # the watch names a stream that runs on
            eventually(lambda: not all_runs())  # a result is there a moment before its run has ended
        for control in list(RUNNING):
            control.is_shutdown.exception(60)
        close(cluster)

    monkeypatch.setattr(Cluster, "close", closes)


@pytest.fixture(scope="module")
def broker():
    """What pages that begin with a broker at localhost:9092 assume: it is there, and topics are made when they are named."""
    with Cluster() as cluster:
        for topic in ("flights", "orders"):
            cluster.create_topic(topic)
        yield cluster.bootstrap_servers


def is_printed(printed: io.StringIO, wanted: str) -> bool:
    return printed.getvalue() == wanted


@pytest.mark.timeout(900)  # the page about Spark starts one
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_the_code_of_a_page_runs_as_written(page, tmp_path, monkeypatch, request):
    if page.name == "tracing.md":
        pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    shown = outputs(page)
    assert blocks(page)[0][0] in shown, "the first program of a page shows what it prints, in a block of text behind it"
    assert THE_USERS_BROKER not in blocks(page)[0][1], "the first program of a page needs nothing before it"
    for line, code in blocks(page):
        if THE_USERS_BROKER in code:
            code = code.replace(THE_USERS_BROKER, request.getfixturevalue("broker"))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (line - 1) + code, str(page), "exec", dont_inherit=True), names)
            if line in shown:
                with contextlib.suppress(AssertionError):  # the assertion below shows the difference
                    # a thread may write the log later
                    eventually(partial(is_printed, printed, shown[line]))
        if line in shown:
            assert printed.getvalue() == shown[line]
    names.clear()  # a producer among them would call the broker when it is gone; the page's functions hold them all


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", ["tutorial", "spark"])
def test_a_page_runs_a_second_time_in_the_same_folder(page, tmp_path, monkeypatch):
    """The tutorial's checkpoint was a folder beside the program, and the second run's broker a new one: a bare AssertionError. On the page about
    Spark a second query with the group of the first read an empty table."""
    monkeypatch.chdir(tmp_path)
    path = ROOT / "docs" / f"{page}.md"
    shown = outputs(path)
    for _ in range(2):
        names: dict[str, object] = {"__name__": "__main__"}
        for line, code in blocks(path):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * (line - 1) + code, page, "exec", dont_inherit=True), names)
            if page == "spark" and line in shown:
                assert printed.getvalue() == shown[line]
        names.clear()


def test_links_between_pages_lead_somewhere():
    missing = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        for target in re.findall(
            r"\]\(([^)#:]+)(?:#[^)]*)?\)", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        )
        if not (page.parent / target).exists()
    ]
    assert not missing


def test_the_page_of_a_sink_says_when_marks_are_done_and_not_that_they_pass():
    sections = {
        section.splitlines()[0]: section
        for name, page in generate.pages().items()
        if name.startswith("sinks-")
        for section in page.split("\n## ")[1:]
    }
    assert "**Marks**: done" in sections["fold"]
    assert [name for name, section in sections.items() if "Marks: pass" in section or section.count("Marks") > 1] == []


def test_the_files_that_the_architecture_names_exist():
    named = re.findall(r"`([a-z_0-9/]+/[a-z_0-9]+\.py)`", (ROOT / "docs" / "architecture.md").read_text())
    assert len(named) > 10
    roots = (ROOT, ROOT / "streamactors")
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


def test_the_generated_pages_that_are_kept_are_up_to_date():
    assert generate.main(["--check"]) == 0, "run: make docs"
