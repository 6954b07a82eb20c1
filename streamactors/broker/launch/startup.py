"""Makes a configuration and a data folder from options and a server.properties file.

Owner: the command line and `Cluster`. Later sources win: the file, then `--listen`, `--advertise` and `--data`, then single
settings.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from streamactors.broker.config.broker_config import BrokerConfig, Plain
from streamactors.broker.config.listeners import listener_specs, parse_address
from streamactors.broker.config.properties import read_properties
from streamactors.broker.config.setting import InvalidSetting

if TYPE_CHECKING:
    from streamactors.broker.controller.command import Command


class Assembled(NamedTuple):
    """A checked configuration and the data folder; `discard` removes a temporary folder."""

    config: BrokerConfig
    folder: Path
    temporary: bool
    first: tuple[Command, ...] = ()
    """Commands that the controller carries out before a listener accepts connections."""

    def discard(self) -> None:
        """Remove the data folder if it is temporary."""
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)


def assemble(
    *,
    listen: Sequence[str] = (),
    advertise: Sequence[str] = (),
    data: str | Path | Sequence[str] | None = None,
    properties: str | Path | None = None,
    settings: Mapping[str, Plain] | None = None,
    add_scram: Sequence[str] = (),
    acls: Sequence[Mapping[str, str]] = (),
    temporary: bool = False,
) -> Assembled:
    """Return the checked configuration, and make a temporary folder if none is named. Raises InvalidSetting first.

    `temporary`: the named folder is one that an earlier broker made."""
    given = merged(listen=listen, advertise=advertise, data=data, properties=properties, settings=settings or {})
    config = BrokerConfig.of(given)
    listener_specs(config)
    first: tuple[Command, ...] = ()
    if add_scram or acls:
        from streamactors.broker.security.first_users import first_commands

        first = first_commands(add_scram, acls)
    if config.data_folder:
        return Assembled(config, Path(config.data_folder).expanduser().absolute(), temporary, first)
    return Assembled(config, Path(tempfile.mkdtemp(prefix="streamactors-")), temporary=True, first=first)


def merged(
    *,
    listen: Sequence[str],
    advertise: Sequence[str],
    data: str | Path | Sequence[str] | None,
    properties: str | Path | None,
    settings: Mapping[str, Plain],
) -> dict[str, Plain]:
    """Return the settings by name, from all sources. Raises InvalidSetting."""
    given: dict[str, Plain] = {}
    if properties is not None:
        given.update(read_properties(Path(properties)))
    if listen:
        _listen(given, listen, advertise)
    elif advertise:
        given["advertised.listeners"] = ",".join(_named("--advertise", address) for address in advertise)
    if data is not None and data != ():
        folders = [str(data)] if isinstance(data, str | Path) else list(data)
        if not all(map(str.strip, folders)):
            # an unset variable of a script: the records would be lost with a temporary folder
            raise InvalidSetting("--data is empty: name a folder, or leave it out for a temporary one", name="log.dirs")
        given["log.dirs"] = ",".join(folders)
        given.pop("log.dir", None)
        given.pop("metadata.log.dir", None)
    given.update(settings)
    return given


def parse_setting(text: str) -> tuple[str, str]:
    """Return the name and value of a `key=value`. Raises InvalidSetting."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidSetting(f"--set {text}: its form is key=value, as in num.partitions=4", name=name, value=text)
    return name.strip(), value.strip()


def _listen(given: dict[str, Plain], listen: Sequence[str], advertise: Sequence[str]) -> None:
    listeners = [_named("--listen", part) for address in listen for part in address.split(",")]
    given["listeners"] = ",".join(listeners)
    given.pop("advertised.listeners", None)
    if advertise:
        given["advertised.listeners"] = ",".join(
            _named("--advertise", a) for each in advertise for a in each.split(",")
        )
    # a listener named on the command line is PLAINTEXT, unless the map or its name says otherwise
    names = [listener.partition("://")[0] for listener in listeners]
    known = str(given.get("listener.security.protocol.map") or "PLAINTEXT:PLAINTEXT")
    mapped = {entry.partition(":")[0].strip().upper() for entry in known.split(",")}
    unmapped = [name for name in names if name not in mapped]
    for name in unmapped:
        if name.startswith("TLS"):  # the user would think it is protected
            raise InvalidSetting(
                f"--listen {name}://…: TLS is SSL://, with logins SASL_SSL://; another name needs --set "
                f"listener.security.protocol.map={name}:SSL",
                name="listeners",
                value=name,
            )
    missing = [f"{name}:PLAINTEXT" for name in unmapped if not name.startswith(("SSL", "SASL"))]
    given["listener.security.protocol.map"] = ",".join([known, *missing])
    if str(given.get("inter.broker.listener.name") or names[0]).upper() not in names:
        del given["inter.broker.listener.name"]


def _named(option: str, address: str) -> str:
    name, host, port = parse_address(option, address)
    return f"{name}://{f'[{host}]' if ':' in host else host}:{port}"
