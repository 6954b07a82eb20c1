"""`ssl.principal.mapping.rules`: turns the subject of a client's certificate into the name of its principal.

Rules by comma, the first that matches wins: `RULE:pattern/replacement/`, followed by `L` or `U` for lower or upper case, and `DEFAULT`,
the whole subject. Source: Kafka's SslPrincipalMapper (KIP-371)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from streamactors.broker.config.setting import InvalidSetting

_RULES: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    replacement: str
    case: str


class PrincipalMapping:
    """The parsed rules of `ssl.principal.mapping.rules`."""

    def __init__(self, rules: str = "DEFAULT") -> None:
        self._rules = [*_parse(rules)]

    def name(self, subject: str) -> str:
        """Return the name of the principal. Raises InvalidSetting if no rule matches."""
        for pattern, replacement, case in self._rules:
            if pattern is None:
                return subject
            if (found := pattern.fullmatch(subject)) is not None:
                name = re.sub(r"\$(\d)", lambda number: found[int(number[1])] or "", replacement)
                return name.lower() if case == "L" else name.upper() if case == "U" else name
        raise InvalidSetting(
            f"ssl.principal.mapping.rules: no rule matches {subject}; add DEFAULT at the end",
            name="ssl.principal.mapping.rules",
        )


def _parse(text: str) -> list[_Rule]:
    rules: list[_Rule] = []
    position = 0
    while position < len(text):
        found = _RULES.match(text, position)
        if found is None:
            raise _refuse(text, f"no rule at {text[position:]!r}")
        default, pattern, replacement, case = found.groups()
        try:
            rules.append(_Rule(None if default else re.compile(pattern), replacement or "", case or ""))
        except re.error as error:
            raise _refuse(text, f"{pattern!r} is not a regular expression ({error})") from None
        position = found.end()
    return rules or [_Rule(None, "", "")]


def _refuse(text: str, why: str) -> InvalidSetting:
    return InvalidSetting(
        f"ssl.principal.mapping.rules={text}: {why}; its form is RULE:pattern/replacement/[LU] or DEFAULT, by comma",
        name="ssl.principal.mapping.rules",
        value=text,
    )
