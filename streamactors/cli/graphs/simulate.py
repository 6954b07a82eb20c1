"""`streamactors simulate MODULE:TEST`: tries a test's body by many seeds, without pytest."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any, Final

import click

from streamactors.cli.durations import SECONDS
from streamactors.dsl.named import GraphNotFound, load_named

FORM: Final = "MODULE:TEST, as in test_payments:test_payments or test_payments.py:test_payments"
_MARK: Final = "simulate"


@click.command("simulate")
@click.argument("test", metavar="MODULE:TEST")
@click.option(
    "--seeds", type=click.IntRange(min=1), help="Try so many seeds; 100 unless the test's marker says otherwise."
)
@click.option("--seed", type=int, help="Try this seed alone, as a failure names it.")
@click.option("--case", type=click.Path(exists=True, dir_okay=False), help="Run the case of this file alone.")
@click.option("--time", type=SECONDS, help="Begin no further seed after this time. A number is seconds.")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Try seeds in so many processes; one for each core without it."
)
def command(
    test: str, seeds: int | None, seed: int | None, case: str | None, time: float | None, jobs: int | None
) -> int:
    """Run the body of a test in a simulated world, once for each seed, until a check breaks.

    TEST is a function of one argument, the simulation. What its marker `simulate` says is used, too. Exit code: 0 every seed
    held, 1 one did not, 2 the name is wrong.

    \b
    Examples:
      streamactors simulate test_payments.py:test_payments --seeds 1000
      streamactors simulate test_payments:test_payments --seed 417
    """
    from streamactors.simulation.running.simulate import simulate

    body = load_named(test, FunctionType, FORM)
    wanted = [] if not isinstance(body, FunctionType) else list(inspect.signature(body).parameters)
    if len(wanted) != 1:
        raise GraphNotFound(f"{test} is no function of one argument, the simulation; its form is {FORM}")
    given = _marked(body)
    if seeds is not None:
        given["seeds"] = seeds
    if time is not None:
        given["time"] = time
    if case is not None:
        given["case"] = case
    again = f"streamactors simulate {test}"
    tried = simulate(
        body, seed=seed, jobs=jobs, repeat=f"{again} --seed {{seed}}", repeat_case=f"{again} --case '{{path}}'", **given
    )
    click.echo(
        f"{test}: {tried.seeds} seeds in {tried.took_s:.1f} s, {tried.per_minute:.0f} a minute: every check held"
    )
    return 0


def _marked(body: Any) -> dict[str, Any]:
    """Return what a test's marker says of seeds and faults."""
    marks = [mark for mark in getattr(body, "pytestmark", ()) if mark.name == _MARK]
    return {name: value for mark in marks for name, value in mark.kwargs.items() if name not in ("real", "minutes")}
