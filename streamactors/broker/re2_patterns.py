"""Regular expressions of clients, by RE2: its time grows with the text and never explodes, so no client can block the broker.

Apache Kafka uses RE2/J, which has the same syntax. Python's `re` must not be used here: it backtracks without end.
`google-re2` is imported on the first pattern, because most brokers never see one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from streamactors.broker.errors import ErrorCode, Refusal

_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid escape sequence": "invalid escape sequence",
    "trailing \\": "trailing backslash at end of expression",
    "invalid character class range": "invalid character class range",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""RE2's errors, and how RE2/J words them."""

_MAX_MEMORY: Final = 1 << 20
"""Most bytes of a compiled expression."""


class InvalidPattern(ValueError):
    """RE2 refuses a pattern; the message is that of RE2/J."""


def compiled(pattern: str) -> Any:
    """Return the compiled pattern, of at most 1 MiB. Raises InvalidPattern."""
    import re2

    options = re2.Options()
    options.log_errors = False  # else RE2 writes to standard error
    options.max_mem = _MAX_MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0]
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise InvalidPattern(
            next((java for ours, java in _DESCRIPTIONS.items() if text.startswith(ours)), text)
        ) from error


def whole_match(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a whole string matches. Raises Refusal(INVALID_REGULAR_EXPRESSION) with RE2/J's reason."""
    try:
        program = compiled(pattern)
    except InvalidPattern as error:
        text = f"`{pattern}` is not an RE2 regular expression: {error}"
        raise Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from None
    return lambda text: program.fullmatch(text) is not None
