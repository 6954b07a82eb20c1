"""The records of the metadata log about access control, credentials, delegation tokens and client quotas.

Owner: the controller. The fields are in the order of the wire; `metadata_codec` encodes and decodes them.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from streamactors.broker.metadata.metadata_record import MetadataRecord
from streamactors.broker.protocol.record_schema import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    NULLABLE_TEXT,
    TEXT,
    UUID,
    array,
    structure,
)


@dataclass(frozen=True, slots=True)
class AccessControlEntry(MetadataRecord):
    """An access control entry is added. The codes of type, pattern, operation and permission are those of CreateAcls."""

    KEY = 18
    id: Annotated[uuid.UUID, UUID]
    resource_type: Annotated[int, INT8]
    resource_name: Annotated[str, TEXT]
    pattern_type: Annotated[int, INT8]
    principal: Annotated[str, TEXT]
    host: Annotated[str, TEXT]
    operation: Annotated[int, INT8]
    permission_type: Annotated[int, INT8]


@dataclass(frozen=True, slots=True)
class RemoveAccessControlEntry(MetadataRecord):
    """An access control entry is removed."""

    KEY = 19
    id: Annotated[uuid.UUID, UUID]


@dataclass(frozen=True, slots=True)
class UserScramCredential(MetadataRecord):
    """A user's SCRAM credential is set. Mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    KEY = 11
    name: Annotated[str, TEXT]
    mechanism: Annotated[int, INT8]
    salt: Annotated[bytes, BYTES] = field(repr=False)
    stored_key: Annotated[bytes, BYTES] = field(repr=False)
    server_key: Annotated[bytes, BYTES] = field(repr=False)
    iterations: Annotated[int, INT32]


@dataclass(frozen=True, slots=True)
class RemoveUserScramCredential(MetadataRecord):
    """A user's SCRAM credential is removed."""

    KEY = 22
    name: Annotated[str, TEXT]
    mechanism: Annotated[int, INT8]


@dataclass(frozen=True, slots=True)
class DelegationToken(MetadataRecord):
    """A delegation token is created or renewed. Times are in ms since 1970."""

    KEY = 10
    owner: Annotated[str, TEXT]
    requester: Annotated[str, TEXT]
    renewers: Annotated[tuple[str, ...], array(TEXT)]
    issued_at_ms: Annotated[int, INT64]
    valid_until_ms: Annotated[int, INT64]
    expires_at_ms: Annotated[int, INT64]
    token_id: Annotated[str, TEXT]

    def is_over(self, now_ms: float) -> bool:
        """Whether the token has expired."""
        return now_ms > self.expires_at_ms or now_ms > self.valid_until_ms

    def is_of(self, principal: str) -> bool:
        """Whether a principal may see, renew and expire the token without a right: the owner, the requester, a renewer."""
        return principal in (self.owner, self.requester) or principal in self.renewers


@dataclass(frozen=True, slots=True)
class RemoveDelegationToken(MetadataRecord):
    """A delegation token is removed."""

    KEY = 26
    token_id: Annotated[str, TEXT]


class QuotaEntity(NamedTuple):
    """One part of the entity that a quota holds for: its type (`user`, `client-id`, `ip`) and name. None is the default."""

    type: Annotated[str, TEXT]
    name: Annotated[str | None, NULLABLE_TEXT]


@dataclass(frozen=True, slots=True)
class ClientQuota(MetadataRecord):
    """A client quota is set, or removed."""

    KEY = 14
    entity: Annotated[tuple[QuotaEntity, ...], array(structure(QuotaEntity))]
    key: Annotated[str, TEXT]
    value: Annotated[float, FLOAT64]
    remove: Annotated[bool, BOOLEAN] = False
