"""meta.properties: which broker of which cluster a data folder belongs to.

Owner: LogManager. Java properties: version=1, node.id, cluster.id, directory.id. An additional line
says that this broker created the folder, and in which format; recovery relies on it. Source: KIP-631, KIP-858.
"""

from __future__ import annotations

import uuid
from typing import Final, NamedTuple

from streamactors.broker.log.partition_metadata import decode_uuid, encode_uuid

FILE_NAME: Final = "meta.properties"
VERSION: Final = "1"
FORMAT: Final = 1
"""The newest format of a folder that this version reads. A format that older versions must not open gets the next number."""
_OWN: Final = "streamactors.format"


class MetaProperties(NamedTuple):
    """Content of the file."""

    cluster_id: str
    node_id: int
    directory_id: uuid.UUID | None
    own: bool
    """Whether this broker created the folder and no other broker wrote to it."""
    format: int = FORMAT


def encode_properties(properties: MetaProperties) -> bytes:
    """The file's content."""
    lines = [f"version={VERSION}", f"node.id={properties.node_id}", f"cluster.id={properties.cluster_id}"]
    if properties.directory_id is not None:
        lines.append(f"directory.id={encode_uuid(properties.directory_id)}")
    if properties.own:
        lines.append(f"{_OWN}={properties.format}")
    return "\n".join(["#", *lines, ""]).encode()


def decode_properties(data: bytes) -> MetaProperties:
    """Read the file's content. Raises ValueError, which names the missing or wrong entry."""
    values: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        if line.strip() and line.lstrip()[0] not in "#!":
            name, _, value = line.partition("=")
            values[name.strip()] = value.strip().replace("\\", "")
    if values.get("version") != VERSION:
        raise ValueError(f"version is {values.get('version', 'missing')}, only {VERSION} is known")
    if not values.get("cluster.id"):
        raise ValueError("cluster.id is missing")
    node_id = values.get("node.id", "")
    if not node_id.isdigit():
        raise ValueError(f"node.id is {node_id or 'missing'}, it must be a number")
    directory_id = values.get("directory.id")
    format_ = values.get(_OWN, str(FORMAT))
    if not format_.isdigit():
        raise ValueError(f"{_OWN} is {format_}, it must be a number")
    return MetaProperties(
        values["cluster.id"],
        int(node_id),
        decode_uuid(directory_id) if directory_id else None,
        _OWN in values,
        int(format_),
    )


def new_properties(node_id: int, cluster_id: str | None = None) -> MetaProperties:
    """Return the properties of a new folder."""
    return MetaProperties(cluster_id or encode_uuid(uuid.uuid4()), node_id, uuid.uuid4(), own=True)
