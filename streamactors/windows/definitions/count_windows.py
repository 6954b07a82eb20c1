"""CountWindows: windows of a number of rows of a key, in the order of their processing.

Owner: the user's topology; immutable."""

from __future__ import annotations

from dataclasses import dataclass

from streamactors.errors import BuildError


@dataclass(frozen=True, slots=True)
class CountWindows:
    """Tumbling windows of `size` rows. No row is late; the rows of a window that is not full give no result."""

    size: int

    @classmethod
    def of_size(cls, size: int) -> CountWindows:
        """Windows of `size` rows (at least 1)."""
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise BuildError(f"CountWindows: size is {size!r}; give a number of rows of at least 1")
        return cls(size)
