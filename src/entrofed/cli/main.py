"""The command ``entrofed``."""

import errno
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter, UnusedCliTokensError
from rich.markup import escape

from entrofed import __version__
from entrofed.cli import completion
from entrofed.cli import console as terminal
from entrofed.cli.advise import advise
from entrofed.cli.console import RUNS, DataDir, Out, Seeds, in_options, this_command
from entrofed.cli.data import data_app
from entrofed.cli.explain import explain
from entrofed.cli.leaderboard import leaderboard
from entrofed.cli.machine import AsJson, emit
from entrofed.cli.papers import papers, reproduce_app
from entrofed.cli.peer import peer_app
from entrofed.cli.privacy import privacy_app
from entrofed.cli.results import compare, export, ls, report, show
from entrofed.cli.run import resume, run, validate
from entrofed.cli.studies import study_app
from entrofed.cli.sweep import sweep
from entrofed.errors import ConfigError, EntrofedError

app = App(
    name="entrofed",
    help="Federated learning that chooses and weighs clients by information.\n\n"
    "With --debug, any command shows where an error comes from.",
    version=__version__,
    suppress_keyboard_interrupt=False,  # main() says what to do next
)
flower_app = App(name="flower", help="Our methods on Flower.")
for group in (data_app, flower_app, peer_app, study_app, privacy_app, reproduce_app):
    app.command(group)
for command in (run, resume, validate, advise, ls, show, compare, report, export, sweep, explain, papers, leaderboard):
    app.command(command)
app.register_install_completion_command()


@app.command
def quickstart(
    *,
    out: Out = RUNS / "quickstart",
    seeds: Seeds = 3,
    every_method: Annotated[bool, Parameter(name="--all", help="Every method there is; minutes.", negative="")] = False,
) -> None:
    """Compare methods on skewed clients in under a minute, with data that is already here."""
    from entrofed.cli.quickstart import play

    play(out, seeds, terminal.console, every_method=every_method)


@app.command
def doctor(*, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Check this machine: what works, what is missing, what to do about it."""
    from entrofed.cli.doctor import examine, words_of

    found = []
    for finding in examine(data_dir):
        found.append(finding)
        if not as_json:
            terminal.console.print(words_of(finding), highlight=False, soft_wrap=True)
    well = all(finding.ok for finding in found)
    if as_json:
        emit("doctor", ok=well, checks=found)
    if not well:
        raise EntrofedError("the checks above that failed need attention")


@app.command
def parts(
    name: Annotated[
        str | None,
        completion.completed(completion.parts, help="A part, such as fedentopt, or a kind, such as partitions."),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List what experiments are made of (methods, parts, models, partitions, topologies, data), or explain one."""
    from entrofed.cli.tables.parts import chosen, details, kind_of, kind_table, overview

    if as_json:
        emit("parts", parts=chosen(name))
    elif name is None:
        for table in overview():
            terminal.console.print(table)
        terminal.console.print(f"Next: [bold]{this_command()} parts NAME[/bold] for options and references")
    elif (kind := kind_of(name)) is not None:
        terminal.console.print(kind_table(kind))
    else:
        for part in chosen(name):
            terminal.console.print(details(part))


@flower_app.command(name="new")
def flower_new(
    folder: Annotated[Path, Parameter(help="The new folder.")],
    *,
    method: Annotated[str, completion.completed(completion.methods, help="Any that Flower can play.")] = "fedentopt",
) -> None:
    """Write a Flower app that runs: server, clients and task on data that is already here."""
    from entrofed.flower.new import new_app

    for path in new_app(folder, method=method):
        terminal.console.print(str(path), highlight=False, markup=False)
    terminal.console.print(f"Next: read [bold]{folder / 'README.md'}[/bold]")


REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room or choose another folder"),
    **dict.fromkeys((errno.EACCES, errno.EPERM), "get access to it or choose another folder"),
    errno.EROFS: "choose a folder that can be written to",
}
"""What helps against errors of the system, by their numbers."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: a machine is shut down, a scheduler wants its cores back. As Ctrl-C, it saves what was played."""


def _terminate_gently() -> None:
    def stop(number: int, frame: object) -> None:
        raise Terminated

    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, stop)


def _again(given: list[str]) -> str:
    """How a command that was stopped goes on."""
    return "continue with --resume" if given[:1] == ["run"] else "the same command goes on"


def _usage(error: CycloptsError) -> str:
    """What is wrong with the words of a command, and where to read which it takes."""
    command = " ".join(["entrofed", *(error.command_chain or ())])
    if isinstance(error, MissingArgumentError) and error.argument is not None and error.keyword is None:
        name = error.argument.name.removeprefix("--")
        words = f"{command}: {name.upper() if error.argument.field_info.is_positional else f'--{name}'} is missing."
    elif isinstance(error, UnusedCliTokensError):
        words = f"{command}: {' '.join(error.unused_tokens or ())!r} is not expected."
    else:
        words = str(error)
    return f"{words} '{command} --help' shows what it takes"


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exit codes: 0 ok, 1 failure, 2 usage, 3 data, 4 quorum, 130 Ctrl-C, 143 SIGTERM."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    _terminate_gently()
    try:
        app(
            [word for word in given if word != "--debug"],
            exit_on_error=False,
            print_error=False,
        )
    except CycloptsError as error:
        terminal.errors.print(f"[red]error:[/red] {escape(_usage(error))}")
        code = ConfigError.exit_code
    except EntrofedError as error:
        if debug:
            raise
        terminal.errors.print(f"[red]error:[/red] {escape(in_options(str(error)))}")
        code = error.exit_code
    except KeyboardInterrupt as stopped:
        words = "; ".join(["stopped", *getattr(stopped, "__notes__", ())])
        terminal.errors.print(f"\n{words}: {_again(given)}")
        code = 143 if isinstance(stopped, Terminated) else 130
    except OSError as error:
        if debug:
            raise
        where = f"{error.filename}: " if error.filename else ""
        remedy = REMEDIES.get(error.errno or 0, "choose another folder")
        again = "" if given[:1] == ["report"] else f"; {_again(given)}"  # a report is not gone on with
        words = f"{where}{error.strerror or error}; {remedy}{again}"
        terminal.errors.print(f"[red]error:[/red] {escape(words)}")
        code = EntrofedError.exit_code
    except Exception as error:
        if debug:
            raise
        terminal.errors.print(
            f"[red]unexpected {type(error).__name__}:[/red] {escape(str(error))}\n(--debug shows where)"
        )
        code = EntrofedError.exit_code
    else:
        code = 0
    sys.exit(code)
