"""Every operator has an example that was run, and a run gives the same picture again."""

from __future__ import annotations

import pytest

from docs import generate
from docs.pictures import PICTURES, picture, program
from streamactors.testing import Marbles

NO_OPERATORS = {"index.md", "akka-names.md", "other-names.md"}
EXAMPLES = [(page, name, example) for page, examples in PICTURES.items() for name, example in examples.items()]


@pytest.fixture(scope="module")
def pages():
    return generate.pages()


def test_every_operator_has_an_example_with_its_result(pages):
    headings = {(name, line) for name, text in pages.items() if name not in NO_OPERATORS for line in text.splitlines()}
    operators = {(name.removesuffix(".md"), line[3:]) for name, line in headings if line.startswith("## ")}
    examples = {(page, name) for page, name, _ in EXAMPLES}
    assert len(operators) > 280
    assert operators - examples == set(), "give the operator an example in docs/examples/"
    assert examples - operators == set(), "an example of an operator that is not there"


def test_a_run_gives_the_picture_that_the_page_shows(pages):
    with Marbles() as marbles:
        for page, name, example in EXAMPLES:
            shown = program(example)[1] if isinstance(example, str) else picture(example, marbles)
            assert f"```text\n{shown}\n```" in pages[f"{page}.md"], name


def test_pictures_show_what_operators_do():
    with Marbles() as marbles:
        assert picture(PICTURES["operators-timing"]["debounce"], marbles).splitlines() == ["a 12---3|", "  ---2--(3 |)"]
        assert picture(PICTURES["sinks-values"]["count"], marbles).splitlines()[-1] == "  ------future: 3"
        shared = picture(PICTURES["kill-switches"]["KillSwitches.shared"], marbles)
        assert shared.splitlines() == ["a -1-2-3|", "b ----|", "  -1-2|"]
    assert program(PICTURES["hubs"]["MergeHub.source_with_draining"])[1] == "[0, 1, 2, 10, 11]"
