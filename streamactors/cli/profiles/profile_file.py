"""The file with the profiles of clusters: `streamactors.toml` in $XDG_CONFIG_HOME, else in ~/.config.

    default = "local"

    [profiles.local]
    bootstrap = "localhost:9092"

    [profiles.prod]
    bootstrap = "broker.example.com:9093"
    config = "prod.properties"                  # a file of client properties, as for --config
    registry = "https://registry.example.com"   # for --value avro and json-schema

    [profiles.prod.properties]
    security.protocol = "SASL_SSL"
    sasl.username = "ann"
    sasl.password = { file = "~/.secrets/prod" }    # or { env = "PROD_PASSWORD" }

Relative paths begin at the folder of the file. A secret is read when its profile is used, not when profiles are listed."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

from streamactors.cli.property_file import properties_of
from streamactors.cli.suggesting import nearest
from streamactors.errors import BuildError, StreamActorsError
from streamactors.kafka.property_rules import HIDDEN, addresses_of, is_secret

_KEYS: Final = ("default", "profiles")
_PROFILE_KEYS: Final = ("bootstrap", "properties", "config", "registry")
_SECRET_KEYS: Final = ("file", "env")
OTHERS_READ: Final = stat.S_IRGRP | stat.S_IROTH


class ProfileError(StreamActorsError):
    """The file of profiles cannot be used, or has no such profile."""

    exit_code = 2


@dataclass(frozen=True)
class Secret:
    """Where a property's value is: in a file, or in a variable of the environment."""

    kind: str
    """file or env."""
    name: str

    def __str__(self) -> str:
        return f"{{ {self.kind} = {self.name!r} }}"


@dataclass(frozen=True)
class Profile:
    """One cluster."""

    name: str
    bootstrap: str
    file: Path
    properties: Mapping[str, str | Secret] = field(default_factory=dict)
    config: str | None = None
    registry: str | None = None

    def resolved(self) -> dict[str, str]:
        """Return the properties with their secrets, those of the file `config` included. Raises ProfileError."""
        found = {} if self.config is None else properties_of(_path(self.file, self.config))
        return {**found, **{name: self._value(name, value) for name, value in self.properties.items()}}

    def shown(self) -> dict[str, str]:
        """Return the properties as they may be printed: secrets are hidden, or named by their place."""
        return {
            name: str(value) if isinstance(value, Secret) else HIDDEN if is_secret(name) else value
            for name, value in self.properties.items()
        }

    @property
    def open_secrets(self) -> list[str]:
        """The properties whose secret is in the file, if other users may read it."""
        if not self.file.stat().st_mode & OTHERS_READ:
            return []
        return [
            name
            for name, value in self.properties.items()
            if isinstance(value, str) and is_secret(name) and name != "sasl.username"
        ]

    def _value(self, name: str, value: str | Secret) -> str:
        if isinstance(value, str):
            return value
        where = f"{self.file}: profiles.{self.name}.properties.{name}"
        if value.kind == "env":
            if value.name not in os.environ:
                raise ProfileError(f"{where}: the environment has no {value.name}; export it, or give {{ file = … }}")
            return os.environ[value.name]
        path = _path(self.file, value.name)
        try:
            return path.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise ProfileError(f"{where}: cannot read {path} ({why}); it must hold the secret") from None


@dataclass(frozen=True)
class ProfileFile:
    """All profiles of the file, and the name of the one that is used without --profile."""

    path: Path
    profiles: Mapping[str, Profile]
    default: str | None = None

    def named(self, name: str) -> Profile:
        """Return a profile. Raises ProfileError."""
        found = self.profiles.get(name)
        if found is None:
            if not self.path.exists():
                raise ProfileError(
                    f"there is no profile {name!r}: {self.path} does not exist; see: streamactors profiles --help"
                )
            near = nearest(name, self.profiles)
            way_out = f"did you mean {near}?" if near else f"it has {', '.join(self.profiles) or 'none'}"
            raise ProfileError(f"{self.path} has no profile {name!r}; {way_out}")
        return found


def profile_path() -> Path:
    """Return where the file is, or would be."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "streamactors.toml"


def read_profiles(path: Path | None = None) -> ProfileFile:
    """Return the profiles of the file; none if there is no file. Raises ProfileError naming the file, the key and the way out."""
    path = profile_path() if path is None else path
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ProfileFile(path, {})
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{path} is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ProfileError(f"{path}: cannot read it ({why})") from None
    _check_keys(path, "", content, _KEYS, "this file")
    tables = content.get("profiles", {})
    if not isinstance(tables, dict):
        _refuse(path, "profiles", "it is no table; write [profiles.NAME]")
    profiles = {name: _profile(path, name, table) for name, table in tables.items()}
    default = content.get("default")
    if default is not None and default not in profiles:
        _refuse(path, "default", f"there is no profile {default!r}; it has {', '.join(profiles) or 'none'}")
    return ProfileFile(path, profiles, default)


def _profile(path: Path, name: str, table: Any) -> Profile:
    where = f"profiles.{name}"
    if not isinstance(table, dict):
        _refuse(path, where, f"it is no table; write [profiles.{name}]")
    _check_keys(path, f"{where}.", table, _PROFILE_KEYS, "a profile")
    texts = {key: table.get(key) for key in ("bootstrap", "config", "registry")}
    for key, value in texts.items():
        if value is not None and not isinstance(value, str):
            _refuse(path, f"{where}.{key}", f"{value!r} is no string; put it in quotes")
    bootstrap = texts["bootstrap"]
    if bootstrap is None:
        _refuse(path, f"{where}.bootstrap", 'it is missing; write bootstrap = "broker.example.com:9092"')
    try:
        addresses_of(bootstrap)
    except BuildError as error:
        _refuse(path, f"{where}.bootstrap", str(error))
    properties = table.get("properties", {})
    if not isinstance(properties, dict):
        _refuse(path, f"{where}.properties", f"it is no table; write [{where}.properties]")
    found = dict(_properties(path, f"{where}.properties", "", properties))
    return Profile(name, bootstrap, path, found, texts["config"], texts["registry"])


def _properties(path: Path, where: str, prefix: str, table: dict[str, Any]) -> list[tuple[str, str | Secret]]:
    """Return properties by name. TOML reads `sasl.username = …` as a table in a table, so names are joined again."""
    from streamactors.kafka.client.diagnosis.property_names import is_known, unknown_property

    found: list[tuple[str, str | Secret]] = []
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and not (len(value) == 1 and next(iter(value)) in _SECRET_KEYS):
            found += _properties(path, where, f"{name}.", value)
            continue
        if not is_known(name):
            _refuse(path, f"{where}.{name}", unknown_property(name))
        if isinstance(value, dict):
            ((kind, place),) = value.items()
            if not isinstance(place, str) or not place:
                _refuse(path, f"{where}.{name}", f'{kind} is no name; write {{ {kind} = "…" }}')
            found.append((name, Secret(kind, place)))
        elif isinstance(value, bool):
            found.append((name, str(value).lower()))
        elif isinstance(value, (str, int, float)):
            found.append((name, str(value)))
        else:
            _refuse(
                path, f"{where}.{name}", f"{value!r} is no value of a property; give a string, a number, true or false"
            )
    return found


def _check_keys(path: Path, where: str, table: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for key in table:
        if key not in known:
            near = nearest(key, known)
            way_out = f"did you mean {near}?" if near else f"it has {', '.join(known)}"
            _refuse(path, f"{where}{key}", f"{what} has no such key; {way_out}")


def _refuse(path: Path, key: str, why: str) -> NoReturn:
    raise ProfileError(f"{path}: {key}: {why}")


def _path(file: Path, name: str) -> Path:
    return file.parent / Path(name).expanduser()
