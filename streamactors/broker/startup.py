"""From what a person gives (options, a server.properties file) to a configuration and a data folder.

Owner: the command line and `Cluster`. Later sources win: the file, then `--listen`, `--advertise` and `--data`, then single
settings.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from streamactors.broker.config.broker_config import BrokerConfig, Plain
from streamactors.broker.config.listeners import listener_specs, parse_address
from streamactors.broker.config.properties import read_properties
from streamactors.broker.config.setting import InvalidSetting


class Assembled(NamedTuple):
    """A checked configuration and where the data goes; a temporary folder is removed by `discard`."""

    config: BrokerConfig
    folder: Path
    temporary: bool

    def discard(self) -> None:
        """Remove the data folder if it was made for this run alone."""
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)


def assemble(
    *,
    listen: Sequence[str] = (),
    advertise: Sequence[str] = (),
    data: str | Path | None = None,
    properties: str | Path | None = None,
    settings: Mapping[str, Plain] | None = None,
) -> Assembled:
    """Return the configuration that was asked for, checked as a whole. Raises InvalidSetting, and makes no folder then."""
    given: dict[str, Plain] = {}
    if properties is not None:
        given.update(read_properties(Path(properties)))
    if listen:
        _listen(given, listen, advertise)
    elif advertise:
        given["advertised.listeners"] = ",".join(_named("--advertise", address) for address in advertise)
    if data is not None:
        if not str(data).strip():  # a variable of a script that is not set: what is produced would be gone in the end
            raise InvalidSetting("--data is empty: name a folder, or leave it out for a temporary one", name="log.dirs")
        given["log.dirs"] = str(data)
        given.pop("log.dir", None)
    given.update(settings or {})
    config = BrokerConfig.of(given)
    listener_specs(config)
    if config.data_folder:
        return Assembled(config, Path(config.data_folder).expanduser().absolute(), temporary=False)
    return Assembled(config, Path(tempfile.mkdtemp(prefix="streamactors-")), temporary=True)


def parse_setting(text: str) -> tuple[str, str]:
    """Return the name and value of a `key=value`. Raises InvalidSetting."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidSetting(f"--set {text}: its form is key=value, as in num.partitions=4", name=name, value=text)
    return name.strip(), value.strip()


def parse_address_of_metrics(text: str) -> tuple[str, int]:
    """Return (host, port) of a `--metrics-port`, which is on loopback unless a host is given. Raises InvalidSetting."""
    if text.strip().isdecimal():
        text = f"127.0.0.1:{text.strip()}"
    _, host, port = parse_address("--metrics-port", text)
    return host, port


def _listen(given: dict[str, Plain], listen: Sequence[str], advertise: Sequence[str]) -> None:
    listeners = [_named("--listen", part) for address in listen for part in address.split(",")]
    given["listeners"] = ",".join(listeners)
    given.pop("advertised.listeners", None)
    if advertise:
        given["advertised.listeners"] = ",".join(
            _named("--advertise", a) for each in advertise for a in each.split(",")
        )
    # whoever names a listener on the command line means PLAINTEXT by it: there is nothing else yet
    names = [listener.partition("://")[0] for listener in listeners]
    known = str(given.get("listener.security.protocol.map") or "PLAINTEXT:PLAINTEXT")
    mapped = {entry.partition(":")[0].strip().upper() for entry in known.split(",")}
    missing = [f"{name}:PLAINTEXT" for name in names if name not in mapped and not name.startswith(("SSL", "SASL"))]
    given["listener.security.protocol.map"] = ",".join([known, *missing])
    if str(given.get("inter.broker.listener.name") or names[0]).upper() not in names:
        del given["inter.broker.listener.name"]


def _named(option: str, address: str) -> str:
    name, host, port = parse_address(option, address)
    return f"{name}://{f'[{host}]' if ':' in host else host}:{port}"
