"""The example of each operator was run, and a run gives the same picture again."""

from __future__ import annotations

import pytest

from docs import generate
from docs.catalogue import examples
from docs.pictures import picture, program
from streamactors.testing import Marbles

EXAMPLES = examples()


@pytest.fixture(scope="module")
def pages():
    return generate.pages()


def test_a_run_gives_the_picture_that_the_page_shows(pages):
    with Marbles() as marbles:
        for page, of_page in EXAMPLES.items():
            for name, example in of_page.items():
                shown = program(example.code) if example.is_program else picture(example, marbles)
                assert f"```text\n{shown}\n```" in pages[f"{page}.md"], name


def test_pictures_show_what_operators_do():
    with Marbles() as marbles:
        assert picture(EXAMPLES["operators-timing"]["debounce"], marbles).splitlines() == ["a 12---3|", "  ---2--(3 |)"]
        assert picture(EXAMPLES["sinks-values"]["count"], marbles).splitlines()[-1] == "  ------future: 3"
        shared = picture(EXAMPLES["kill-switches"]["KillSwitches.shared"], marbles)
        assert shared.splitlines() == ["a -1-2-3|", "b ----|", "  -1-2|"]
    assert program(EXAMPLES["hubs"]["MergeHub.source_with_draining"].code) == "[0, 1, 2, 10, 11]"
