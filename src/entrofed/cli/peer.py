"""Commands of organizations that learn together without a server: ``entrofed peer``."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table

from entrofed.cli import completion
from entrofed.cli import console as terminal
from entrofed.cli.console import DataDir
from entrofed.cli.machine import AsJson, emit
from entrofed.errors import ConfigError

SHOWN = ("neighbour", "number", "address", "last_model", "state", "certificate")
"""Of each neighbour."""

peer_app = App(name="peer", help="Learn with other organizations, without a server.")

PeerFolder = Annotated[Path, Parameter(help="The folder of one peer.")]


def _needed() -> None:
    try:
        import cryptography  # noqa: F401
        import grpc  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigError(f"peers need {error.name}; install it with: pip install 'entrofed[peer]'") from None


def _say(words: str) -> None:
    terminal.console.print(words, highlight=False, markup=False, soft_wrap=True)


@peer_app.command
def run(folder: PeerFolder, *, data_dir: DataDir = None) -> None:
    """Run the peer in a folder; started again after a stop, a crash or kill -9, it goes on where it was."""
    from entrofed.core.records import RoundRecord
    from entrofed.peer.handshakes import logged_handshakes

    def told(record: RoundRecord) -> None:
        test = "" if record.test is None else f"  accuracy {record.test.accuracy:.4f}"
        refused = f"  {len(record.refused)} refused" if record.refused else ""
        _say(f"round {record.round + 1}  pooled {len(record.cohort)} of {record.available}{test}{refused}")

    with logged_handshakes():
        _needed()
        from entrofed.peer.node import run_peer

        try:
            summary = run_peer(folder, data_directory=data_dir, observer=told)
        except KeyboardInterrupt:
            _say("stopped; the same command goes on from here")
            raise SystemExit(130) from None
    _say(f"accuracy {summary['accuracy']:.4f} after {summary['rounds']} rounds; in {folder / 'run'}")


@peer_app.command
def new(
    folder: Annotated[Path, Parameter(help="The new folder, of all peers.")],
    *,
    peers: Annotated[int, Parameter(help="How many, all on this machine.")] = 3,
    topology: Annotated[
        str | None, completion.completed(completion.topologies, help="Who talks to whom: ring, full, star, ...")
    ] = None,
    degree: Annotated[int | None, Parameter(help="Of topologies that have one.")] = None,
    rewire: Annotated[float | None, Parameter(help="Of a small world.")] = None,
    experiment: Annotated[Path | None, Parameter(help="An experiment file of your own.")] = None,
    port: Annotated[int, Parameter(help="The first of as many ports.")] = 7300,
    deadline: Annotated[float, Parameter(help="Seconds that a round waits for neighbours.")] = 60.0,
) -> None:
    """Write configurations, keys and a README for a trial on this machine."""
    _needed()
    from entrofed.peer.new import new_trial

    given = {"degree": degree, "rewire": rewire}
    options = {key: value for key, value in given.items() if value is not None}
    paths = new_trial(
        folder, peers=peers, topology=topology, options=options, file=experiment, port=port, deadline=deadline
    )
    for path in paths:
        _say(str(path))
    terminal.console.print(f"Next: read [bold]{folder / 'README.md'}[/bold]")


@peer_app.command
def invite(
    folder: PeerFolder,
    *,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"), help="The card; by default NAME.card.")] = None,
) -> None:
    """Write the card of a peer: what others need to become its neighbours. It holds no secret."""
    _needed()
    from entrofed.peer.invite import write_card

    path, shown = write_card(folder, output)
    _say(f"{path}: send it to your neighbour, and let it run 'entrofed peer join'")
    _say(f"fingerprint, for a phone call:\n{shown}")


@peer_app.command
def join(
    folder: PeerFolder,
    card: Annotated[Path, Parameter(help="The file that the neighbour sent.")],
    *,
    name: Annotated[str | None, Parameter(help="Of the new peer, if the folder holds none yet.")] = None,
    number: Annotated[int | None, Parameter(help="Of the new peer; no two of a run have the same.")] = None,
    listen: Annotated[str | None, Parameter(help="Where the new peer listens, such as 0.0.0.0:7300.")] = None,
    address: Annotated[str | None, Parameter(help="Where neighbours find it, such as bern.example:7300.")] = None,
    fingerprint: Annotated[
        str | None, Parameter(help="Of the card's certificate, as you heard it; a card with another is refused.")
    ] = None,
) -> None:
    """Take the sender of a card as a neighbour; in a new folder, make a peer of the same run."""
    _needed()
    from entrofed.peer.invite import join_card

    joined = join_card(folder, card, name=name, number=number, listen=listen, address=address, fingerprint=fingerprint)
    _say(f"{joined.neighbour} is a neighbour of {joined.name} from its next start on.")
    _say(f"Compare on the phone: the fingerprint of {joined.neighbour} is\n{joined.theirs}")
    _say(f"and yours is\n{joined.ours}")
    _say(f"Next: 'entrofed peer invite {folder}', if {joined.neighbour} does not know you yet")


@peer_app.command
def status(folder: PeerFolder, *, as_json: AsJson = False) -> None:
    """How a peer and its neighbours are, from its folder."""
    _needed()
    from entrofed.peer.status import status_of

    found = status_of(folder)
    if as_json:
        neighbours = [dict(zip(SHOWN, line, strict=True)) for line in found.neighbours]
        emit("peer.status", name=found.name, number=found.number, words=found.words, neighbours=neighbours)
        return
    _say(f"{found.name} (number {found.number}): {found.words}")
    table = Table(*(name.replace("_", " ") for name in SHOWN))
    for line in found.neighbours:
        table.add_row(*line)
    terminal.console.print(table)
