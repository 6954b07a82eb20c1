"""Pages are short, in short sentences, their headings are questions or tasks, and their links meet a heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT
from tools.prose import Prose, anchors, links

DOCS = ROOT / "docs"
MOST_WORDS = 1_500
MOST_WORDS_A_SENTENCE = 16.0

LOOKED_UP = {"architecture.md", "benchmarks.md", "broker-reference.md", "errors.md", "glossary.md", "metrics.md"}
"""Pages in which a reader looks one line up. Their number of words has no limit."""

LONG: dict[str, int] = {}
"""Guides with more words, with their number. A page is removed from here when it is short enough, and none is added."""

WORDY: dict[str, float] = {"broker-reference.md": 17.0}
"""Pages with longer sentences, with their words a sentence. None is added."""

NOUNS: dict[str, int] = {}
"""Pages with headings of one word, with their number. None is added."""


def prose(page: Path) -> Prose:
    return Prose(page.read_text(encoding="utf-8"))


def test_a_guide_is_read_in_six_minutes() -> None:
    guides = {page.name: prose(page).words for page in PAGES if page.name not in LOOKED_UP}
    long = {name: words for name, words in guides.items() if words > MOST_WORDS}
    grown = {name: words for name, words in long.items() if words > LONG.get(name, MOST_WORDS)}
    assert grown == {}, "move what is for the curious to a concepts page, and what is looked up to a page of reference"
    assert LONG.keys() - long.keys() == set(), "short enough: remove these from LONG"


def test_sentences_are_short() -> None:
    pages = [*PAGES, *(DOCS / "recipes").glob("*.md")]
    averages = {page.name: round(prose(page).words_a_sentence, 1) for page in pages}
    wordy = {name: average for name, average in averages.items() if average > MOST_WORDS_A_SENTENCE}
    grown = {name: average for name, average in wordy.items() if average > WORDY.get(name, MOST_WORDS_A_SENTENCE)}
    assert grown == {}, "python tools/prose.py PAGE prints the longest sentences first"
    assert WORDY.keys() - wordy.keys() == set(), "short enough: remove these from WORDY"


def test_a_heading_of_a_guide_is_a_question_or_a_task() -> None:
    """A heading of one word names a topic: a reader does not see his question in it."""
    nouns = {}
    for page in PAGES:
        headings = re.findall(r"^##+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
        if page.name not in LOOKED_UP and (single := sum(1 for heading in headings if len(heading.split()) == 1)):
            nouns[page.name] = single
    assert {name: count for name, count in nouns.items() if count > NOUNS.get(name, 0)} == {}
    assert {name: count for name, count in NOUNS.items() if count > nouns.get(name, 0)} == {}, "fewer: lower NOUNS"


def test_links_meet_a_heading() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
    found = {page.resolve(): anchors(page.read_text(encoding="utf-8")) for page in pages}
    dead = []
    for page in pages:
        for target, anchor in links(page.read_text(encoding="utf-8")):
            at = (page.parent / target).resolve() if target else page.resolve()
            if anchor and at in found and anchor not in found[at]:
                dead.append(f"{page.relative_to(ROOT)} -> {target}#{anchor}")
    assert dead == []


@pytest.mark.parametrize(
    ("markdown", "sentences"),
    [
        ("One. Two three.", ["One.", "Two three."]),
        ("# A heading\n\nOne\nsentence.\n\n```python\nx = 1. + y\n```", ["One sentence."]),
        ("- an item\n- another [item](page.md#with-a-link)\n\n| a | table |\n", ["an item", "another item"]),
        ("It takes 0.5 s, e.g. here. `a b.c` is one word!", ["It takes 0.5 s, e.g here.", "`a_b.c` is one word!"]),
        ("<!-- not\nread --> **Bold.** Then (in brackets).", ["**Bold.", "Then (in brackets)."]),
    ],
)
def test_sentences_are_those_of_a_reader(markdown: str, sentences: list[str]) -> None:
    assert Prose(markdown).sentences == sentences


def test_words_of_code_blocks_and_targets_of_links_are_not_counted() -> None:
    assert Prose("## Two words\n\n| three | cells | here |\n|---|---|---|\n\n```sh\nnot counted\n```\n").words == 5
    assert Prose("[a link](somewhere-else.md) ![not a picture](it.png) - `one name()`").words == 3


def test_an_anchor_is_the_one_that_github_makes() -> None:
    page = "# The page\n## How do I `run(x)` it?\n```sh\n# no heading\n```\n## Again\n## Again\n"
    assert anchors(page) == {"the-page", "how-do-i-runx-it", "again", "again-1"}
    assert list(links("[a](b.md#c) [d](#e) `[f](g)` [h](https://i/#j)")) == [("b.md", "c"), ("", "e")]
