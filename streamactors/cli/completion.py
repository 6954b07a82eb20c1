"""`streamactors completion`: the script with which a shell completes commands, options, topics, groups and profiles."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_STREAMACTORS_COMPLETE"
"""Set by the script: then `streamactors` prints completions and does nothing else."""


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script that lets a shell complete commands, options, topics, groups and profiles with Tab.

    Topics and groups are those of the broker at --bootstrap, or of the profile; without an answer in a second none are shown.

    \b
    Examples:
      streamactors completion bash > ~/.local/share/bash-completion/completions/streamactors
      echo 'eval "$(streamactors completion zsh)"' >> ~/.zshrc
      streamactors completion fish > ~/.config/fish/completions/streamactors.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"this version of click completes nothing for {shell}; install click 8.1 or newer")
    click.echo(kind(ctx.find_root().command, {}, "streamactors", VARIABLE).source(), nl=False)
