"""The type of options that are sizes: `64MB`, `512KiB`, or a number of bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    _Type = click.ParamType[int]
else:
    _Type = click.ParamType  # not generic in every version that the package accepts

_FORM: Final = re.compile(r"(\d{1,15})\s*([kKmMgG]?)(i?)[bB]?")
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3}


class ByteSize(_Type):
    """A size in bytes, of at least 1."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the bytes. k, M and G are powers of 1,000, Ki, Mi and Gi of 1,024."""
        if isinstance(value, int):
            return value
        form = _FORM.fullmatch(value.strip())
        if form is None or not int(form[1]):
            self.fail(f"{value!r} is no size; write 64MB, 512KiB or a number of bytes", param, ctx)
        base = 1_024 if form[3] else 1_000
        return int(int(form[1]) * base ** _POWERS[form[2].lower()])


BYTES: Final = ByteSize()


def size_text(size: int) -> str:
    """Return bytes for a reader: `412 B`, `1.4 kB`, `64 MB`."""
    if size < 1_000:
        return f"{size} B"
    for unit in ("kB", "MB", "GB"):
        size_of_unit = size / 1_000 ** (("kB", "MB", "GB").index(unit) + 1)
        if size_of_unit < 1_000 or unit == "GB":
            return f"{size_of_unit:.1f} {unit}" if size_of_unit < 10 else f"{size_of_unit:.0f} {unit}"
    raise AssertionError(size)
