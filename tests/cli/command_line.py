"""What a command makes of a line, without running it."""

from __future__ import annotations

import click

from streamactors.cli.main import cli


def parsed(arguments: list[str]) -> click.Context:
    """Return the context of the command that a line names, with its options. Raises click.UsageError."""
    command: click.Command = cli
    context = click.Context(cli, info_name="streamactors")
    rest = list(arguments)
    while isinstance(command, click.Group):
        name = rest.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name}"
        command = found
    return command.make_context(name, rest, parent=context)
