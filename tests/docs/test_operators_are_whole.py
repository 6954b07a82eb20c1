"""An operator has a stage, a contract, an example, a test, and its places in what is generated. What it lacks is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from docs import catalogue
from docs.catalogue import Operator, Page
from docs.missing import Written, missing
from streamactors.engine.stage import GraphStage
from tests.docs import planted

PLANTED = Page("operators", "operators-planted", "Operators: planted", planted)
EMITS, BACKPRESSURES, COMPLETES, CANCELS = (
    f"its docstring does not say `{when} when:`" for when in ("Emits", "Backpressures", "Completes", "Cancels")
)


@pytest.fixture(scope="module")
def written() -> Written:
    return Written.read()


NO_LAW = "no law test runs {} or its stage: add a Case to tests/stages/test_laws_*.py, or a test with max_chunk(…)"


def plant(name: str) -> Operator:
    return next(each for each in PLANTED.operators if each.name == name)


def made(name: str) -> list[str]:
    """The entries that `make docs` makes."""
    return [
        f"streamactors/dsl/operators/all_operators.pyi has no {name}: run make docs, if all_operators.py has its mix-in",
        f"tests/public_api.txt has no line streamactors.Source.{name}: run make docs",
        f"tests/public_api.txt has no line streamactors.Flow.{name}: run make docs",
    ]


def page(name: str) -> list[str]:
    return [
        f"docs/operators/operators-planted.md has no heading {name}: run make docs",
        f"docs/operators/index.md has no link to {name}: run make docs",
    ]


def test_no_operator_lacks_anything(written: Written) -> None:
    lacking = {
        f"{page.name}.{operator.name}": lacks
        for page in catalogue.pages()
        for operator in page.operators
        if (lacks := missing(operator, page, written))
    }
    assert lacking == {}
    assert sum(len(page.operators) for page in catalogue.pages()) > 250


def test_of_an_operator_that_was_only_begun_everything_is_named(written: Written) -> None:
    name = "plant_bare"
    assert missing(plant(name), PLANTED, written) == [
        "streamactors/stages/transform/planting.py has no Planting, which its method imports: write the stage",
        *(EMITS, BACKPRESSURES, COMPLETES, CANCELS),
        "its docstring in tests/docs/planted.py has no block `Example:`",
        *made(name),
        f"no test in tests/ calls {name}: add it to the laws in tests/stages/",
        *page(name),
    ]


def test_lines_of_the_contract_that_lack_are_named_one_by_one(written: Written) -> None:
    lacks = missing(plant("plant_half"), PLANTED, written)
    assert [each for each in lacks if "docstring" in each] == [
        COMPLETES,
        CANCELS,
        "its docstring in tests/docs/planted.py has no block `Example:`",
    ]


def test_each_entry_that_was_not_made_is_named_alone(written: Written) -> None:
    name = "plant_whole"
    whole = Written(
        stubs={"operators": f"    def {name}(self) -> Any: ..."},
        pages={"operators-planted": f"# Operators\n\n## {name}\n\n"},
        index=f"[{name}](operators-planted.md#{name})",
        names=f"streamactors.Flow.{name}()\nstreamactors.Source.{name}(self)",
        tests=f"Source.range(3).{name}()",
        laws=f"Source.range(3).max_chunk(1).{name}()",
    )
    assert missing(plant(name), PLANTED, whole) == []
    stub, source, flow = made(name)
    heading, link = page(name)
    for change, lack in (
        ({"stubs": {"operators": ""}}, stub),
        ({"names": f"streamactors.Flow.{name}()"}, source),
        ({"names": f"streamactors.Source.{name}(self)"}, flow),
        ({"tests": "Source.range(3)"}, f"no test in tests/ calls {name}: add it to the laws in tests/stages/"),
        ({"laws": "Source.range(3).max_chunk(1)"}, NO_LAW.format(name)),
        ({"pages": {}}, heading),
        ({"index": ""}, link),
    ):
        assert missing(plant(name), PLANTED, replace(whole, **change)) == [lack]


def test_the_stage_is_enough_for_a_law_test_and_its_marks_must_be_declared(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = plant("plant_half")
    calls = replace(written, tests=".plant_half()", laws="Case(lambda hook: Identity())")
    assert not [each for each in missing(half, PLANTED, calls) if "law" in each]
    from streamactors.stages.bases import passing

    class Undeclared(GraphStage):
        """As a stage of a newcomer, who has not read of marks."""

    monkeypatch.setattr(passing, "Identity", Undeclared)
    assert (
        "streamactors/stages/bases/passing.py: the stage Identity does not declare `handling`, how it treats marks"
        in (missing(half, PLANTED, calls))
    )


def test_an_example_is_read_from_the_end_of_the_docstring() -> None:
    operator = plant("plant_whole")
    assert operator.example is not None
    assert (operator.example.inputs, operator.example.code) == (("-1-2|",), "a.plant_whole()")
    assert operator.contract.endswith("Cancels when: downstream cancels.")
    assert not operator.example.is_program
    assert plant("plant_half").example is None
