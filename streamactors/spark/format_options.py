"""Options of the formats that this package gives Spark. Spark hands the names over in lower case. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from streamactors.errors import BuildError

TO_SKIP: Final = "failOnDataLoss=false"
"""The option that skips deleted records, as errors name it."""

_SPARKS: Final = frozenset({"path", "checkpointlocation", "queryname", "outputmode"})


def check_names(form: str, options: Mapping[str, str], known: Mapping[str, str], prefix: str | None = None) -> None:
    """Raise BuildError for an option that the format `form` does not have. `known`: names by their lower case; `prefix`: of more names."""
    for name in options:
        if name in known or name in _SPARKS or (prefix is not None and name.startswith(prefix)):
            continue
        near = get_close_matches(name, known, n=1)
        meant = f"; did you mean {known[near[0]]}?" if near else ";"
        others = [*known.values(), *([] if prefix is None else [f"{prefix}NAME"])]
        choices = " and ".join(filter(None, (", ".join(others[:-1]), others[-1])))
        raise BuildError(f"{form} has no option {name} here{meant} its options are {choices}")


def flag(form: str, options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return an option that is true or false. Raises BuildError."""
    given = options.get(name.lower())
    if given is None:
        return default
    if given.lower() not in ("true", "false"):
        raise BuildError(f"{form}: option {name} must be true or false, got {given!r}")
    return given.lower() == "true"


def number(form: str, options: Mapping[str, str], name: str) -> int | None:
    """Return an option that is a number of at least 1, None if it is not given. Raises BuildError."""
    given = options.get(name.lower())
    if given is not None and (not given.isdigit() or int(given) < 1):
        raise BuildError(f"{form}: option {name} must be a number of at least 1, got {given!r}")
    return None if given is None else int(given)
