"""The help of every command names what a user can set: the environment variable of an option, and its default."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from streamactors.cli.main import cli


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command below one, with its words."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))
    else:
        yield path, command


ALL = dict(commands(cli))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_the_help_of_a_command_names_the_variables_and_defaults_of_its_options(path: tuple[str, ...]) -> None:
    options = [each for each in ALL[path].params if isinstance(each, click.Option) and not each.hidden]
    text = " ".join(
        CliRunner().invoke(cli, [*path, "--help"], terminal_width=10_000, max_content_width=10_000).output.split()
    )
    for option in options:
        if option.envvar is not None:
            assert str(option.envvar) in text
        if isinstance(option.default, (str, int, float)) and not isinstance(option.default, bool):
            assert option.show_default, option.name
            assert f"default: {option.default}" in text, option.name


def test_the_address_of_the_broker_has_a_variable_and_a_default() -> None:
    text = " ".join(CliRunner().invoke(cli, ["topics", "list", "--help"], terminal_width=200).output.split())
    assert "env var: STREAMACTORS_BOOTSTRAP; default: localhost:9092" in text


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_the_help_of_a_command_names_no_file_that_only_a_clone_has(path: tuple[str, ...]) -> None:
    """`run --help` said `examples/word_count.py:graph`, which a user of the wheel does not have."""
    text = CliRunner().invoke(cli, [*path, "--help"], terminal_width=200).output
    assert not [folder for folder in ("examples/", "tests/", "benchmarks/", "docs/") if folder in text]
