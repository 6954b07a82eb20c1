"""Every page of operators has an example that was run, and a run gives the same picture again."""

from __future__ import annotations

import pytest

from docs import generate
from docs.pictures import CODE, PICTURES, picture, program
from streamactors.testing import Marbles

NO_OPERATORS = {"index.md", "akka-names.md", "other-names.md"}
EXAMPLES = [(page, name, example) for page, examples in PICTURES.items() for name, example in examples.items()]


@pytest.fixture(scope="module")
def pages():
    return generate.pages()


def test_every_page_has_an_example_with_its_result(pages):
    without = [name for name, text in pages.items() if name not in NO_OPERATORS and text.count("```text") < 2]
    without += [
        name
        for name in pages
        if name not in NO_OPERATORS and name.removesuffix(".md") not in PICTURES.keys() | CODE.keys()
    ]
    assert without == [], "give the page an example in docs/pictures.py"


def test_every_example_is_on_a_page(pages):
    assert {f"{page}.md" for page in PICTURES.keys() | CODE.keys()} <= pages.keys()
    lost = [f"{page}: {name}" for page, name, _ in EXAMPLES if f"\n## {name}\n" not in pages[f"{page}.md"]]
    assert lost == []


def test_a_run_gives_the_picture_that_the_page_shows(pages):
    with Marbles() as marbles:
        for page, name, example in EXAMPLES:
            assert picture(example, marbles) in pages[f"{page}.md"], name


def test_pictures_show_what_operators_do():
    with Marbles() as marbles:
        assert picture(PICTURES["operators-timing"]["debounce"], marbles).splitlines() == ["a 12---3|", "  ---2--(3 |)"]
        assert picture(PICTURES["sinks-values"]["count"], marbles).splitlines()[-1] == "  ------future: 3"
    assert program(CODE["sources-fed"])[1] == "[0, 1, 2]"
