"""Every Python block of the README and the docs runs as written; the blocks of one page share their names."""

from __future__ import annotations

import contextlib
import io
import re
from functools import partial

import pytest

from streamactors.broker import Cluster
from streamactors.kafka import ConsumerSettings, ProducerSettings
from tests.actors.eventually import eventually
from tests.docs.pages import PAGES, ROOT, blocks, outputs

THE_USERS_BROKER = "localhost:9092"


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """On a busy machine the first answer of a broker may take longer than a user would like to wait."""
    for settings in (ConsumerSettings, ProducerSettings):
        monkeypatch.setitem(settings.__init__.__kwdefaults__, "preflight_timeout_ms", 60_000)


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
            exec(compile("\n" * (line - 1) + code, str(page), "exec"), names)
            if line in shown:
                with contextlib.suppress(AssertionError):  # the assertion below shows the difference
                    # a thread may write the log later
                    eventually(partial(is_printed, printed, shown[line]))
        if line in shown:
            assert printed.getvalue() == shown[line]
    names.clear()  # a producer among them would call the broker when it is gone; the page's functions hold them all


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tutorial_runs_a_second_time_in_the_same_folder(tmp_path, monkeypatch):
    """Its checkpoint was a folder beside the program, and the second run's broker a new one: a bare AssertionError."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        names: dict[str, object] = {"__name__": "__main__"}
        with contextlib.redirect_stdout(io.StringIO()):
            for line, code in blocks(ROOT / "docs" / "tutorial.md"):
                exec(compile("\n" * (line - 1) + code, "tutorial", "exec"), names)
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
        for page in (ROOT / "docs" / "operators").glob("sinks-*.md")
        for section in page.read_text().split("\n## ")[1:]
    }
    assert "Marks: done" in sections["fold"]
    assert [name for name, section in sections.items() if "Marks: pass" in section or section.count("Marks:") > 1] == []


def test_the_files_that_the_architecture_names_exist():
    named = re.findall(r"`([a-z_0-9/]+/[a-z_0-9]+\.py)`", (ROOT / "docs" / "architecture.md").read_text())
    assert len(named) > 10
    roots = (ROOT, ROOT / "streamactors")
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


def test_the_operator_pages_are_up_to_date():
    from docs.generate import main

    assert main(["--check"]) == 0, "run: make docs"
