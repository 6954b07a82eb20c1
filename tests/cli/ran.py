"""What a command of the command line gave back, as a person or a script sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The cells of a table, header and rules left out."""
        lines = [line.split() for line in self.out.splitlines() if line.strip() and "───" not in line]
        return lines[1:]

    @property
    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]
