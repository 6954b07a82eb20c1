"""The records that bracket a transaction of the metadata log (KIP-868): a change that takes more than one batch.

Owner: the controller writes them. `MetadataLoader` publishes nothing between the first and the last of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from streamactors.broker.metadata.metadata_record import MetadataRecord
from streamactors.broker.protocol.record_schema import NULLABLE_TEXT, Field


@dataclass(frozen=True, slots=True)
class BeginTransaction(MetadataRecord):
    """The following records take effect together, at the end of the transaction."""

    KEY = 23
    name: Annotated[str | None, Field(NULLABLE_TEXT, tag=0)] = None


@dataclass(frozen=True, slots=True)
class EndTransaction(MetadataRecord):
    """The records since the beginning of the transaction take effect."""

    KEY = 24


@dataclass(frozen=True, slots=True)
class AbortTransaction(MetadataRecord):
    """The records since the beginning of the transaction have no effect."""

    KEY = 25
    reason: Annotated[str | None, Field(NULLABLE_TEXT, tag=0)] = None
