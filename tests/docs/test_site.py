"""The documentation site, as far as no site needs to be built: each page has its place, and links and lists of pages hold."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("yaml", reason="the extra docs is not installed")

from tools.site import llms, navigation, tree
from tools.site.build import settings
from tools.site.pages import ASSETS, pages


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages()


@pytest.fixture(scope="module")
def nav(made: dict[str, str]) -> list[Any]:
    return settings(made)["nav"]


def test_every_page_has_one_place_in_the_navigation(made: dict[str, str], nav: list[Any]) -> None:
    assert navigation.problems(nav, set(made)) == [], "docs/site.yml lists the pages by what a reader wants"


def test_a_page_without_a_place_an_entry_without_a_page_and_a_page_with_two_places_are_named() -> None:
    nav = ["a.md", {"B": ["b.md", {"C": "a.md"}]}]
    assert navigation.problems(nav, {"a.md", "c.md", "source/x.py.md"}) == [
        "c.md has no entry in nav",
        "b.md is in nav, but not in docs/",
        "a.md is in nav twice",
    ]


def test_a_folder_in_the_navigation_is_its_pages_with_the_index_first() -> None:
    pages = ["a/b.md", "a/index.md", "a/a.md", "a/c/d.md", "b.md"]
    assert navigation.expanded([{"A": "a/*"}, {"B": ["b.md", "a/*"]}], pages) == [
        {"A": ["a/index.md", "a/a.md", "a/b.md"]},
        {"B": ["b.md", "a/index.md", "a/a.md", "a/b.md"]},
    ]
    assert navigation.expanded(["a/a.md", {"A": "a/*"}], pages) == ["a/a.md", {"A": ["a/index.md", "a/b.md"]}]


def test_the_first_level_is_what_a_reader_wants(nav: list[Any]) -> None:
    titles = [next(iter(entry)) for entry in nav]
    assert titles[0] == "Home"
    assert {"Tutorials", "How-to guides", "Reference", "Explanation"} <= set(titles)


def test_links_of_a_page_lead_to_pages_that_are_there(made: dict[str, str]) -> None:
    for page, text in made.items():
        targets: list[str] = []
        tree.with_links(text, lambda target, into=targets: into.append(target) or target)  # type: ignore[misc]
        for target in targets:
            found = tree.normpath(f"{tree.dirname(page)}/{target}".lstrip("/"))
            assert found in made or (tree.DOCS / found).is_file(), f"{page} -> {target}"


@pytest.mark.parametrize(
    ("page", "written", "in_the_site"),
    [
        ("kafka.md", "[x](broker.md#clients)", "[x](broker.md#clients)"),
        ("index.md", "[x](docs/broker.md) ![y](docs/images/demo-pauses.png)", "[x](broker.md) ![y](images/demo-pauses.png)"),
        ("architecture.md", "[x](../README.md#where-to-go-next)", "[x](index.md#where-to-go-next)"),
        ("joins.md", "[x](../streamactors/demo/joins.py)", "[x](source/streamactors/demo/joins.py.md)"),
        ("operators.md", "[x](../streamactors/dsl/operators/fold.py)", "[x](operators/operators-fold.md)"),
        ("operators.md", "[x](../streamactors/dsl/dynamic/kill_switches.py)", "[x](operators/kill-switches.md)"),
        ("kafka.md", "[x](../streamactors/kafka/settings.py)", "[x](reference/settings.md)"),
        ("index.md", "[x](examples)", "[x](source/examples/index.md)"),
        ("kafka.md", "`[x](../README.md)` [y](https://a.b/c.md) [z](#here)", None),
        ("kafka.md", "```text\n[x](../README.md)\n```\n", None),
    ],
)  # fmt: skip
def test_a_link_leads_to_where_the_site_has_the_file(page: str, written: str, in_the_site: str | None) -> None:
    assert tree.for_site(written, page) == (in_the_site or written)


def test_a_source_file_that_a_page_links_to_is_a_page(made: dict[str, str]) -> None:
    assert "def " in made["source/streamactors/demo/joins.py.md"]
    assert "\n## word_count.py\n" in made["source/examples/index.md"]


def test_llms_txt_lists_every_page_with_its_title_and_first_sentence(made: dict[str, str], nav: list[Any]) -> None:
    listed = re.findall(r"^- \[(.+)\]\((.+?)\): (.*)$", llms.index(nav, made), re.MULTILINE)
    assert [page for _, page, _ in listed] == [page for _, page in navigation.pages(nav)]
    assert ("Kafka", "kafka.md", "`streamactors.kafka` reads and writes topics of any Kafka broker.") in listed
    assert [page for _, page, sentence in listed if not sentence or "```" in sentence] == []


def test_no_asset_comes_from_another_host() -> None:
    assert settings([])["theme"]["font"] is False
    named = [text for text in settings([])["extra"]["polyfills"] + settings([])["extra_css"] if "://" in text]
    assert named == []
    assert {path.name for path in ASSETS.iterdir()} == {"site.css", "iframe-worker.js"}
