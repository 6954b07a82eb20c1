"""Functions that declare settings.

Each returns a `Setting` typed by its value, so `config.num_partitions` is an int for a type checker.
"""

from __future__ import annotations

from streamactors.broker.config.checks import ANYTHING, Check
from streamactors.broker.config.setting import Setting, SettingType


def boolean(default: bool, doc: str, check: Check = ANYTHING, *, dynamic: bool = False) -> Setting[bool]:
    """Declare a setting that is true or false."""
    return Setting(SettingType.BOOLEAN, default, doc, check, dynamic=dynamic)


def short(default: int, doc: str, check: Check = ANYTHING) -> Setting[int]:
    """Declare a 16-bit number."""
    return Setting(SettingType.SHORT, default, doc, check)


def integer(default: int, doc: str, check: Check = ANYTHING, *, dynamic: bool = False) -> Setting[int]:
    """Declare a 32-bit number."""
    return Setting(SettingType.INT, default, doc, check, dynamic=dynamic)


def long(default: int, doc: str, check: Check = ANYTHING, *, dynamic: bool = False) -> Setting[int]:
    """Declare a 64-bit number."""
    return Setting(SettingType.LONG, default, doc, check, dynamic=dynamic)


def double(default: float, doc: str, check: Check = ANYTHING, *, dynamic: bool = False) -> Setting[float]:
    """Declare a floating-point number."""
    return Setting(SettingType.DOUBLE, default, doc, check, dynamic=dynamic)


def text(default: str, doc: str, check: Check = ANYTHING, *, dynamic: bool = False) -> Setting[str]:
    """Declare a string."""
    return Setting(SettingType.STRING, default, doc, check, dynamic=dynamic)


def words(
    default: tuple[str, ...], doc: str, check: Check = ANYTHING, *, dynamic: bool = False
) -> Setting[tuple[str, ...]]:
    """Declare a comma-separated list."""
    return Setting(SettingType.LIST, default, doc, check, dynamic=dynamic)


def optional_integer(doc: str, check: Check = ANYTHING, *, dynamic: bool = False) -> Setting[int | None]:
    """Declare a 32-bit number that may stay unset."""
    return Setting(SettingType.INT, None, doc, check, dynamic=dynamic)


def optional_long(doc: str, check: Check = ANYTHING, *, dynamic: bool = False) -> Setting[int | None]:
    """Declare a 64-bit number that may stay unset."""
    return Setting(SettingType.LONG, None, doc, check, dynamic=dynamic)


def secret(doc: str, *, dynamic: bool = False) -> Setting[str | None]:
    """Declare a string that is never shown: a password or a private key."""
    return Setting(SettingType.PASSWORD, None, doc, dynamic=dynamic)


def optional_text(doc: str, check: Check = ANYTHING) -> Setting[str | None]:
    """Declare a string that may stay unset."""
    return Setting(SettingType.STRING, None, doc, check)
