"""A file that holds one case: JSON that repeats a failure in another process, and later as a test.

Owner: whoever keeps it. Nothing in it is code. A file that is no case, or of a newer version, is refused with a sentence."""

from __future__ import annotations

import dataclasses
import json
import platform
from pathlib import Path
from typing import Any, Final, NamedTuple

from streamactors import __version__
from streamactors.simulation.face.case import Case, Outcome
from streamactors.simulation.faults.faults import Faults
from streamactors.simulation.faults.when import At, Between, Every
from streamactors.simulation.world.errors import SimulationError

VERSION: Final = 1
MOST_BYTES: Final = 4_000_000


class NoSimcase(SimulationError, ValueError):
    """A file is no case of a simulation, or one that this version cannot read."""


class Kept(NamedTuple):
    """What a file holds. `check`: the one that broke. `digest`: of the trace, equal if the code is equal."""

    test: str
    case: Case
    check: str
    digest: str


def save(path: Path, test: str, case: Case, outcome: Outcome) -> None:
    """Write a case and what it broke."""
    assert outcome.broken is not None
    faults = case.faults if isinstance(case.faults, Faults) else None
    kept = {
        "simcase": VERSION,
        "streamactors": __version__,
        "python": platform.python_version(),
        "test": test,
        "seed": case.seed,
        "faults": None
        if faults is None
        else {f.name: _plain(getattr(faults, f.name)) for f in dataclasses.fields(Faults)},
        "only": None if case.only is None else sorted(case.only),
        "records": None if case.records is None else sorted(case.records),
        "lines": case.lines,
        "check": outcome.broken.check,
        "digest": outcome.digest,
    }
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> Kept:
    """Return what a file holds. Raises NoSimcase, and OSError if it cannot be read."""
    if path.stat().st_size > MOST_BYTES:
        raise NoSimcase(f"{path} has more than {MOST_BYTES:,} bytes: it is no case of a simulation")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        number = found["simcase"]
        if number != VERSION:
            raise NoSimcase(
                f"{path} is of version {number}, this streamactors reads {VERSION}; use the one that wrote it"
            )
        faults = None if found["faults"] is None else Faults(**{k: _value(v) for k, v in found["faults"].items()})
        only, records = found["only"], found["records"]
        case = Case(
            int(found["seed"]), faults, None if only is None else frozenset(map(str, only)),
            None if records is None else frozenset(map(int, records)), float(found["lines"]),
        )  # fmt: skip
        return Kept(str(found["test"]), case, str(found["check"]), str(found["digest"]))
    except NoSimcase:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise NoSimcase(f"{path} is no case of a simulation: {type(error).__name__}: {error}") from None


def _plain(value: Any) -> Any:
    """Return a value of Faults as JSON."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, At):
        return {"at": list(value.ms)}
    if isinstance(value, Every):
        return {"every": [value.ms]}
    return {"between": [value.first, value.last, value.rate]} if isinstance(value, Between) else value


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_value(each) for each in value)
    if isinstance(value, dict):
        ((word, given),) = value.items()
        return At(tuple(map(float, given))) if word == "at" else {"every": Every, "between": Between}[word](*given)
    return value
