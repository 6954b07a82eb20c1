"""The command `streamactors`: finds the subcommand, and turns every expected error into one line and an exit code.

Exit codes: 0 done, 1 it failed, 2 it was asked wrongly or the broker cannot start, 130 interrupted. A subcommand's module is
imported when it is run, so that a broker does not wait for what only a consumer needs.
"""

from __future__ import annotations

import errno
import importlib
import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from streamactors.cli.colours import has_colours, in_colour
from streamactors.cli.suggesting import nearest, usage_text
from streamactors.errors import StreamActorsError
from streamactors.json_log import say as say_as_json

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# name -> (module with a `command`, what --help says)
COMMANDS: Final = {
    "broker": ("streamactors.cli.clusters.broker", "Start a Kafka-compatible broker."),
    "cluster": ("streamactors.cli.clusters.cluster", "Start several brokers that form a cluster, on this machine."),
    "storage": ("streamactors.cli.clusters.storage", "Format data folders, and describe them."),
    "features": ("streamactors.cli.clusters.features", "List, raise and lower the features of a cluster."),
    "topics": ("streamactors.cli.clusters.topics", "List, create, describe, alter and delete topics."),
    "groups": ("streamactors.cli.clusters.groups", "List, describe, reset and delete consumer groups."),
    "users": ("streamactors.cli.clusters.users", "List, set and remove users of SCRAM."),
    "acls": ("streamactors.cli.clusters.acls", "List, add and remove access control entries."),
    "quotas": ("streamactors.cli.clusters.quotas", "List, set and remove quotas of users, client ids and addresses."),
    "certificates": ("streamactors.cli.clusters.certificates", "Make certificates for a broker with TLS on a laptop."),
    "transactions": ("streamactors.cli.clusters.transactions", "List and describe transactions."),
    "profiles": ("streamactors.cli.profiles.command", "List the clusters in streamactors.toml."),
    "produce": ("streamactors.cli.records.produce", "Produce lines from standard input to a topic."),
    "consume": ("streamactors.cli.records.consume", "Print the records of a topic."),
    "new": ("streamactors.cli.new.command", "Make a project: a pipeline, its test, a Dockerfile."),
    "run": ("streamactors.cli.graphs.run", "Run a graph; drain it when asked to stop."),
    "demo": ("streamactors.demo.command", "Run the main job: a year of flights through broker, graphs and Spark."),
    "check": ("streamactors.cli.graphs.check", "Check that a graph could run, brokers and topics included."),
    "simulate": ("streamactors.cli.graphs.simulate", "Try a pipeline's test by many seeds in a simulated world."),
    "bench": ("streamactors.cli.graphs.bench", "Run a graph, and print what it does with one core."),
    "state": ("streamactors.cli.graphs.state", "List, check, export and repair state on disk."),
    "top": ("streamactors.cli.graphs.top", "Show a running graph in the terminal, and what holds it back."),
    "trace": (
        "streamactors.cli.graphs.trace",
        "Print the latency of each hop of a graph, from the topic to the commit.",
    ),
    "dashboard": ("streamactors.cli.graphs.dashboard", "Serve one live page for several processes."),
    "query": ("streamactors.cli.graphs.query", "Read a store of a running graph."),
    "dead-letters": ("streamactors.cli.records.dead_letters", "List, show and replay records that could not be read."),
    "completion": ("streamactors.cli.completion", "Print a script for the Tab key of bash, zsh or fish."),
    "docs": ("streamactors.cli.docs", "Print a page of the documentation."),
    "capture": ("streamactors.cli.captures.capture", "Write what a live group has read into one file."),
    "replay": ("streamactors.cli.captures.replay", "Run a graph on a captured file, record by record."),
    "graph": ("streamactors.cli.graphs.graph", "Print a graph as a Mermaid flowchart."),
    "asyncapi": ("streamactors.cli.graphs.asyncapi", "Print the AsyncAPI document of a graph."),
}


_UNWRITABLE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # what a stdout that takes no more says


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            near = nearest(cmd_name, COMMANDS)
            if near:
                ctx.fail(f"there is no command {cmd_name!r}; did you mean {near}?")
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            result: object = super().invoke(ctx)
        except BrokenPipeError:  # caught here, since click would exit with 1
            _forget_stdout()  # the reader of our output has closed the pipe
            return 0
        return result

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin so, without importing the commands."""
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return names or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="streamactors", message="streamactors %(version)s")
def cli() -> None:
    """Back-pressured streams and a Kafka-compatible broker, in Python.

    \b
    Example:
      streamactors broker --data ./data
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal of another character set cannot show is escaped
            stream.reconfigure(errors="backslashreplace")
    code = run(arguments)
    unwritten = _unwritten()
    sys.exit(code if unwritten is None else _cannot_print(unwritten))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    try:
        result = cli.main(arguments, prog_name="streamactors", standalone_mode=False)
    except StreamActorsError as error:
        code = _say(str(error), getattr(error, "exit_code", 1))
        _name_docs(error)
        return code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.UsageError as error:
        where = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
        return _say(f"{usage_text(error).rstrip('.')}{where}", 2)
    except click.ClickException as error:
        return _say(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename is not None:
            raise
        return _cannot_print(error)
    return result if isinstance(result, int) else 0


def _name_docs(error: StreamActorsError) -> None:
    """Tell a reader at a terminal where the documentation describes the error. A pipe and a log get the one line of the message."""
    where = error.docs()
    if sys.stderr.isatty() and where != StreamActorsError.docs() and "docs: " not in str(error):
        print(f"  more: streamactors docs {where}", file=sys.stderr)


def _open_closed_streams() -> None:
    """Open /dev/null in place of a standard stream that was closed at the start (`>&-`, some supervisors), so that no socket gets its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # open as long as the process


def _unwritten() -> OSError | None:
    """Return why the output cannot be written; None if it is written, or if the reader has closed the pipe."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
    except OSError as error:
        return error
    return None


def _cannot_print(error: OSError) -> int:
    _forget_stdout()
    return _say(f"cannot print ({error.strerror})", 1)


def _forget_stdout() -> None:
    """Send all further output to /dev/null; otherwise Python reports an error when it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(message: str, code: int) -> int:
    one_line = " ".join(message.split())
    if not say_as_json("streamactors", one_line, logging.ERROR):
        name = in_colour("streamactors:", "red", on=has_colours(sys.stderr))
        print(f"{name} {one_line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
