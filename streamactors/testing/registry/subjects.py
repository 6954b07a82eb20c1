"""Subjects of a schema registry: versions, ids, compatibility levels. No HTTP in here.

Owner: the server, under its lock. With a file, every change is a line of JSON in it, which is read again at the start. The error codes are
those of Confluent's registry."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from streamactors.errors import StreamActorsError
from streamactors.testing.registry import avro, json_schema

LEVELS: Final = (
    "NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE",
)  # fmt: skip
TYPES: Final = ("AVRO", "JSON", "PROTOBUF")
_CHECKS: Final[Mapping[str, Callable[[str, str], list[str]]]] = {
    "AVRO": avro.problems,
    "JSON": json_schema.problems,
    "PROTOBUF": lambda reader, writer: [],  # stored, not compared
}


class RegistryError(StreamActorsError):
    """An answer with an error; `code` is the registry's, its first three digits are those of HTTP."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Stored:
    """A schema under its id."""

    number: int
    kind: str
    text: str
    references: tuple[Any, ...] = ()


@dataclass(slots=True)
class Subject:
    """The versions of a subject: {version: id}; `deleted` holds those that a DELETE without `permanent` has hidden."""

    versions: dict[int, int] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    level: str | None = None
    last: int = 0

    def live(self) -> list[int]:
        """Return the versions that are not deleted."""
        return [version for version in sorted(self.versions) if version not in self.deleted]


class Subjects:
    """The subjects of a registry, and the schemas by their ids."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.level = "BACKWARD"
        self._subjects: dict[str, Subject] = {}
        self._schemas: dict[int, Stored] = {}
        self._ids: dict[str, int] = {}
        self._path = None if path is None else Path(path)
        self._reading = True
        if self._path is not None and self._path.exists():
            for line in self._path.read_text().splitlines():
                change, *arguments = json.loads(line)
                getattr(self, change)(*arguments)
        self._reading = False

    def _keep(self, *change: Any) -> None:
        if self._path is not None and not self._reading:
            with self._path.open("a") as file:
                file.write(json.dumps(change) + "\n")

    # ── schemas ───────────────────────────────────────────────────────────────────────────────────────────────────

    def register(self, name: str, kind: str, text: str, references: Any = ()) -> int:
        """Return the id of a schema, as a new version of the subject unless it is one. Raises RegistryError 409 if it is incompatible."""
        text = parsed(kind, text)
        subject = self._subjects.get(name, Subject())
        number = self._ids.get(_identity(kind, text, references))
        if number is not None and any(subject.versions[version] == number for version in subject.live()):
            return number
        if not self._reading:
            found = self.problems(name, kind, text)
            if found:
                raise RegistryError(409, found[0])
        if number is None:
            number = len(self._schemas) + 1
            self._schemas[number] = Stored(number, kind, text, tuple(references))
            self._ids[_identity(kind, text, references)] = number
        subject.last += 1
        subject.versions[subject.last] = number
        self._subjects[name] = subject
        self._keep("register", name, kind, text, list(references))
        return number

    def lookup(self, name: str, kind: str, text: str, references: Any = ()) -> dict[str, Any]:
        """Return the version of a subject that has this schema."""
        subject = self.subject(name)
        number = self._ids.get(_identity(kind, parsed(kind, text), references))
        for version in subject.live():
            if subject.versions[version] == number:
                return self.version(name, version)
        raise RegistryError(40403, "Schema not found")

    def schema(self, number: int) -> Stored:
        """Return the schema with an id."""
        if number not in self._schemas:
            raise RegistryError(40403, f"Schema {number} not found")
        return self._schemas[number]

    def uses(self, number: int) -> list[tuple[str, int]]:
        """Return the subjects and versions that have a schema."""
        self.schema(number)
        return [(name, v) for name, s in self._subjects.items() for v in s.live() if s.versions[v] == number]

    # ── subjects ──────────────────────────────────────────────────────────────────────────────────────────────────

    def names(self, deleted: bool = False) -> list[str]:
        """Return the subjects, with `deleted` also those whose versions are all deleted."""
        return sorted(
            name for name, subject in self._subjects.items() if subject.live() or (deleted and subject.versions)
        )

    def subject(self, name: str) -> Subject:
        """Return a subject that has versions."""
        subject = self._subjects.get(name)
        if subject is None or not subject.live():
            raise RegistryError(40401, f"Subject '{name}' not found.")
        return subject

    def version(self, name: str, version: int | str, deleted: bool = False) -> dict[str, Any]:
        """Return a version of a subject, "latest" or -1 for the last, as the protocol shows it."""
        known = self._subjects.get(name)
        subject = known if deleted and known is not None and known.versions else self.subject(name)
        live = subject.live()
        if version in ("latest", "-1", -1):
            number = live[-1]
        elif not str(version).isdigit() or int(version) < 1:
            raise RegistryError(
                42202, f"The specified version '{version}' is not a valid version id; use 1 or more, or 'latest'."
            )
        else:
            number = int(version)
        if number not in (subject.versions if deleted else live):
            raise RegistryError(40402, f"Version {number} not found.")
        schema = self.schema(subject.versions[number])
        shown = {"subject": name, "version": number, "id": schema.number, "schema": schema.text}
        return shown | more_of(schema)

    def delete(self, name: str, version: int | str | None, permanent: bool) -> list[int]:
        """Delete a version of a subject, None: all of them; `permanent` only what was deleted before. Return the versions."""
        subject = self._subjects.get(name)
        if subject is None or not subject.versions:
            raise RegistryError(40401, f"Subject '{name}' not found.")
        if version is None:
            chosen = sorted(subject.versions) if permanent else subject.live()
            if permanent and subject.live():
                raise RegistryError(40405, f"Subject '{name}' was not deleted first before being permanently deleted")
        else:
            chosen = [self.version(name, version, deleted=permanent)["version"]]
            if permanent and chosen[0] not in subject.deleted:
                raise RegistryError(
                    40407,
                    f"Subject '{name}' Version {chosen[0]} was not deleted first before being permanently deleted",
                )
        if not chosen:
            raise RegistryError(40404, f"Subject '{name}' was soft deleted. Set permanent=true to delete permanently")
        for number in chosen:
            if permanent:
                del subject.versions[number]
                subject.deleted.discard(number)
            else:
                subject.deleted.add(number)
        self._keep("delete", name, version, permanent)
        return chosen

    # ── compatibility ─────────────────────────────────────────────────────────────────────────────────────────────

    def level_of(self, name: str | None, default_to_global: bool = True) -> str:
        """Return the level of a subject, None: the global one."""
        own = self._subjects[name].level if name in self._subjects else None
        if own is None and name is not None and not default_to_global:
            raise RegistryError(40408, f"Subject '{name}' does not have subject-level compatibility configured")
        return own or self.level

    def set_level(self, name: str | None, level: str | None) -> str | None:
        """Set the level of a subject, or the global one; None removes the subject's. Return the level before."""
        if level is not None and level not in LEVELS:
            raise RegistryError(42203, f"Invalid compatibility level '{level}'. Valid values are {', '.join(LEVELS)}")
        before = self.level_of(name)
        if name is None:
            self.level = level or "BACKWARD"
        else:
            self._subjects.setdefault(name, Subject()).level = level
        self._keep("set_level", name, level)
        return before

    def problems(self, name: str, kind: str, text: str, version: int | str | None = None) -> list[str]:
        """Return what the level of the subject forbids about a schema: against one version, or against those that the level names."""
        level = self.level_of(name)
        subject = self._subjects.get(name, Subject())
        live = subject.live()
        if version is not None:
            live = [self.version(name, version)["version"]]
        elif not level.endswith("TRANSITIVE"):
            live = live[-1:]
        found: list[str] = []
        for number in reversed(live) if level != "NONE" else ():
            old = self.schema(subject.versions[number])
            where = f'subject "{name}", version {number} ({level})'
            found += [
                f"Schema being registered is incompatible with an earlier schema for {where}: {problem}"
                for problem in _broken(level, kind, text, old)
            ]
        return found


def _broken(level: str, kind: str, text: str, old: Stored) -> list[str]:
    if kind != old.kind:
        return [f"it is {kind}, and the version is {old.kind}"]
    check, found = _CHECKS[kind], []
    if level.startswith(("BACKWARD", "FULL")):
        found += [f"{problem} (the new schema reads old data)" for problem in check(text, old.text)]
    if level.startswith(("FORWARD", "FULL")):
        found += [f"{problem} (the old schema reads new data)" for problem in check(old.text, text)]
    return found


def parsed(kind: str, text: str) -> str:
    """Return a schema in the form that is stored. Raises RegistryError 42201 if it is not one."""
    if kind not in TYPES:
        raise RegistryError(42201, f"Invalid schema type {kind}; this registry knows {', '.join(TYPES)}")
    if kind == "PROTOBUF":
        return text
    try:
        schema = json.loads(text) if text.lstrip()[:1] in '{["' else text
        if kind == "AVRO":
            parse = importlib.import_module("fastavro.schema").parse_schema  # of the extra schemas
            parse(schema, {}, expand=False, _write_hint=False)
    except Exception as error:  # noqa: BLE001  # fastavro has several
        raise RegistryError(42201, f"Invalid schema: {error}") from None
    return json.dumps(schema, separators=(",", ":"))


def _identity(kind: str, text: str, references: Any) -> str:
    return json.dumps([kind, text, list(references)], sort_keys=True)


def more_of(schema: Stored) -> dict[str, Any]:
    more: dict[str, Any] = {} if schema.kind == "AVRO" else {"schemaType": schema.kind}
    return more | ({"references": list(schema.references)} if schema.references else {})
