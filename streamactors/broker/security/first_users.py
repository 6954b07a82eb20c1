"""Credentials and access control entries that exist before the first listener opens: `--add-scram` (KIP-900), `Cluster(users=…, acls=…)`."""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from streamactors.broker.config.setting import InvalidSetting
from streamactors.broker.controller.command import AlterScram, Command, CreateAcls, ScramUpsert
from streamactors.broker.metadata.security_record import AccessControlEntry
from streamactors.broker.security.rights import Operation, ResourceType
from streamactors.broker.security.sasl.mechanism import MAX_ITERATIONS, MIN_ITERATIONS
from streamactors.broker.security.sasl.scram import HASHES, credential_of, new_credential, new_salt_secret

_FORM: Final = re.compile(r"(?P<mechanism>SCRAM-SHA-(?:256|512))=\[(?P<fields>.*)\]")
_FIELD: Final = re.compile(r'\s*([a-z]+)=(?:"([^"]*)"|([^,\]]*))\s*(?:,|$)')


class _Pattern(IntEnum):
    LITERAL = 3
    PREFIXED = 4


class _Permission(IntEnum):
    DENY = 2
    ALLOW = 3


def first_commands(add_scram: Sequence[str], acls: Sequence[Mapping[str, str]]) -> tuple[Command, ...]:
    """Return the commands of the controller. Raises InvalidSetting for an invalid string."""
    commands: list[Command] = []
    if add_scram:
        commands.append(AlterScram(new_salt_secret(), upserts=tuple(_upsert(text) for text in add_scram)))
    if acls:
        commands.append(CreateAcls(tuple(entry_of(words) for words in acls)))
    return tuple(commands)


def _upsert(text: str) -> ScramUpsert:
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise _refuse("its form is SCRAM-SHA-256=[name=USER,password=PASSWORD]")
    fields = {name: quoted or bare for name, quoted, bare in _FIELD.findall(found["fields"])}
    unknown = fields.keys() - {"name", "password", "iterations", "salt", "saltedpassword"}
    if unknown or not fields.get("name") or ("password" in fields) == ("saltedpassword" in fields):
        raise _refuse("it has name=…, and password=… or saltedpassword=… with salt=…; iterations=… is free")
    kind = HASHES[found["mechanism"]]
    try:
        iterations = int(fields.get("iterations", MIN_ITERATIONS))
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise _refuse(f"iterations are {MIN_ITERATIONS} to {MAX_ITERATIONS}")
        if "saltedpassword" in fields:
            salt = base64.b64decode(fields["salt"], validate=True)
            made = credential_of(kind, base64.b64decode(fields["saltedpassword"], validate=True), salt, iterations)
        else:
            made = new_credential(kind, fields["password"], iterations)
    except (KeyError, binascii.Error, ValueError):
        raise _refuse("salt and saltedpassword are base64, iterations a number") from None
    return ScramUpsert(fields["name"], kind.code, iterations, made.salt, made.stored_key, made.server_key)


def _refuse(why: str) -> InvalidSetting:
    return InvalidSetting(f"--add-scram: {why}", name="add-scram")  # the value itself contains a password


def entry_of(words: Mapping[str, str]) -> AccessControlEntry:
    """Return the entry that `Acl.as_words` names."""
    principal = words["principal"]
    return AccessControlEntry(
        uuid.uuid4(),
        _code(ResourceType, "resource", words["resource"]),
        words["name"],
        _code(_Pattern, "pattern", words["pattern"]),
        principal if ":" in principal else f"User:{principal}",
        words["host"],
        _code(Operation, "operation", words["operation"]),
        _code(_Permission, "permission", words["permission"]),
    )


def _code(codes: type[IntEnum], what: str, word: str) -> int:
    name = word.strip().upper().replace("-", "_")
    if name not in codes.__members__ or name in ("UNKNOWN", "ANY"):
        known = ", ".join(each for each in codes.__members__ if each not in ("UNKNOWN", "ANY"))
        raise InvalidSetting(f"acl: {what} {word!r} is not one of {known}", name="acls", value=word)
    return int(codes[name])
