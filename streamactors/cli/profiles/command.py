"""`streamactors profiles`: the clusters of the file streamactors.toml."""

from __future__ import annotations

import click

from streamactors.cli.profiles.profile_file import read_profiles
from streamactors.cli.tables import json_option, print_json, print_table


@click.command("profiles")
@json_option
def command(as_json: bool) -> None:
    r"""List the clusters in streamactors.toml, which is in $XDG_CONFIG_HOME or ~/.config. Secrets are hidden.

    A command uses the profile of --profile or STREAMACTORS_PROFILE, else the default of the file. --bootstrap and STREAMACTORS_BOOTSTRAP
    replace the default.

    \b
    A file:
      default = "local"
      [profiles.local]
      bootstrap = "localhost:9092"
      [profiles.prod]
      bootstrap = "broker.example.com:9093"
      registry = "https://registry.example.com"
      [profiles.prod.properties]
      security.protocol = "SASL_SSL"
      sasl.mechanism = "SCRAM-SHA-512"
      sasl.username = "ann"
      sasl.password = { env = "PROD_PASSWORD" }    # or { file = "prod.password" }

    \b
    Examples:
      streamactors profiles
      streamactors topics list --profile prod
    """
    found = read_profiles()
    rows = [
        {
            "profile": each.name,
            "default": each.name == found.default,
            "bootstrap": each.bootstrap,
            "registry": each.registry,
            "config": each.config,
            "properties": each.shown(),
        }
        for each in found.profiles.values()
    ]
    if as_json:
        print_json(rows)
    elif rows:
        shown = [
            (
                f"{row['profile']} (default)" if row["default"] else row["profile"],
                row["bootstrap"],
                "\n".join(f"{name} = {value}" for name, value in each.shown().items()),
            )
            for row, each in zip(rows, found.profiles.values(), strict=True)
        ]
        print_table(("profile", "bootstrap", "properties"), shown)
    else:
        click.echo(f"no profiles in {found.path}; streamactors profiles --help shows what it may hold")
