"""QueryName: the name of a query in Spark's progress, its listeners and its pages. Spark refuses a second active query of one name in a session."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import count

from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.spark.errors import SparkSetupError


def checked_name(who: str, given: object) -> str | None:
    """Return the name that a user gives a query, or None. Raises BuildError naming what was given."""
    if given is None or (isinstance(given, str) and given):
        return given
    raise BuildError(f"{who}: query_name must be a string that is not empty, got {shortened(given, 60)}")


@dataclass(frozen=True)
class QueryName:
    """`is_given`: the user has chosen the name, so no other name will do."""

    text: str
    is_given: bool = True

    def among(self, active: Collection[str | None]) -> str:
        """Return the name for a query that starts beside the active ones. Raises SparkSetupError if a given name is taken."""
        if self.text not in active:
            return self.text
        if self.is_given:
            raise SparkSetupError(
                f"query_name {self.text!r}: an active query of this Spark session has that name; give another one, or stop that query first"
            )
        return next(name for i in count(2) if (name := f"{self.text} ({i})") not in active)
