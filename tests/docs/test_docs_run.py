"""Every Python block of the README and the docs runs as written; the blocks of one page share their names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from streamactors.kafka import ConsumerSettings, ProducerSettings

THE_USERS_BROKER = "localhost:9092"
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)


def blocks(page: Path) -> list[tuple[int, str]]:
    text = page.read_text()
    return [(text[: match.start()].count("\n") + 2, match.group(1)) for match in BLOCK.finditer(text)]


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


@pytest.mark.timeout(900)  # the page about Spark starts one
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_the_code_of_a_page_runs_as_written(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for line, code in blocks(page):
        if "# not run" in code.split("\n", 1)[0]:
            continue
        if THE_USERS_BROKER in code:
            code = code.replace(THE_USERS_BROKER, request.getfixturevalue("broker"))
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), names)
    names.clear()  # a producer among them would call the broker when it is gone; the page's functions hold them all


def test_links_between_pages_lead_somewhere():
    missing = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert not missing


def test_the_operator_pages_are_up_to_date():
    from docs.generate import main

    assert main(["--check"]) == 0, "run: make docs"
