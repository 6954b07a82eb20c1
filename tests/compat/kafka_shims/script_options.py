"""Options of the scripts that stand in for Apache Kafka's: what is not known is refused by name, never ignored."""

from __future__ import annotations

import argparse
from typing import NoReturn

from streamactors.errors import StreamActorsError


class Unknown(StreamActorsError):
    """Something that the real script may know and this one does not."""

    exit_code = 2


class Options(argparse.ArgumentParser):
    """Raises Unknown where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        raise Unknown(f"{self.prog}: {message}")


def client_options(name: str) -> Options:
    """Return the options of a script that talks to a broker."""
    options = Options(prog=name, allow_abbrev=False)
    options.add_argument("--bootstrap-server", required=True)
    return options
