"""A trial on one machine: configurations, keys and a README for a number of peers."""

import secrets
from pathlib import Path
from typing import Any

from entrofed.core.seeds import stream
from entrofed.core.topologies import build_graph
from entrofed.errors import ConfigError
from entrofed.experiment.config import Experiment, parse, read, to_toml
from entrofed.files import write_whole
from entrofed.peer import keys
from entrofed.peer.config import NeighbourSection, PeerFolder, PeerSection

AGREED = "agreed.toml"
PORT = 7300
"""The first port of a trial."""


def trial_experiment(peers: int, topology: str, options: dict[str, Any]) -> Experiment:
    """FedEP on the digits, skewed."""
    return parse(
        {
            "name": "trial",
            "rounds": 10,
            "model": "digits_mlp",
            "data": {"name": "digits", "partition": "dirichlet_balanced", "clients": peers, "alpha": 0.5},
            "method": {"name": "fedep", "epochs": 1, "batch_size": 16, "lr": 0.05, "momentum": 0.9},
            "topology": {"kind": topology, **options},
        }
    )


def new_trial(
    folder: Path,
    *,
    peers: int,
    topology: str | None = None,
    options: dict[str, Any] | None = None,
    file: Path | None = None,
    port: int = PORT,
    deadline: float = 60.0,
) -> list[Path]:
    """Write the folders of peers that talk to each other on this machine; returns them.

    ``file``: an experiment of one's own, whose ``[topology]`` holds unless another is given.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: there is something already and nothing is overwritten; choose another folder")
    if not 1 <= peers <= 1000:
        raise ConfigError(f"peers = {peers}: from 1 to 1000 peers can be tried on one machine")
    if not 0 < port <= 65536 - peers:
        raise ConfigError(f"port = {port}: {peers} ports from there on must lie below 65536")
    if file is None:
        experiment = trial_experiment(peers, topology or "ring", options or {})
    else:
        experiment = read(file)
        if topology is not None:
            table = experiment.model_dump(exclude_unset=True)
            experiment = parse({**table, "topology": {"kind": topology, **(options or {})}}, where=str(file))
    if experiment.topology is None:
        raise ConfigError(f"{file}: peers need a [topology]; choose one, such as ring, or write one into the file")
    graph = build_graph(
        experiment.topology.kind, peers, stream(experiment.seed, "topology"), **experiment.topology.options()
    )
    run, names = secrets.token_hex(8), [f"peer-{k}" for k in range(peers)]
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / AGREED, to_toml(experiment))
    paths = [folder / name for name in names]
    certificates = []
    for path, name in zip(paths, names, strict=True):
        path.mkdir()
        certificates.append(keys.write(path, name))
    for k, path in enumerate(paths):
        known = {}
        (path / "neighbours").mkdir()
        for n in sorted(graph[k]):
            certificate = f"neighbours/{names[n]}.pem"
            write_whole(path / certificate, certificates[n])
            known[names[n]] = NeighbourSection(number=n, address=f"127.0.0.1:{port + n}", certificate=certificate)
        section = PeerSection(
            name=names[k],
            number=k,
            run=run,
            experiment=f"../{AGREED}",
            listen=f"127.0.0.1:{port + k}",
            deadline=deadline,
            neighbours=known,
        )
        PeerFolder(path).write(section)
    write_whole(folder / "README.md", _readme(folder.name, names, experiment))
    return paths


def _readme(name: str, names: list[str], experiment: Experiment) -> str:
    kind = "" if experiment.topology is None else experiment.topology.kind
    return f"""# A trial of {len(names)} peers

`{AGREED}` is what all of them agreed on: {experiment.method.name} on {experiment.data.name}, topology {kind},
{experiment.rounds} rounds. Each folder is one peer, with a key and a certificate of its own, and those of its
neighbours.

Start each in a terminal of its own, in any order, from the folder above this one:

```sh
{chr(10).join(f"entrofed peer run {name}/{one}" for one in names)}
```

Stop one (Ctrl-C, or kill -9) and start it again with the same command: it goes on where it was. How they are:

```sh
entrofed peer status {name}/{names[0]}
entrofed report {name} -o report.html      # all of them on one page
```

The keys are for this trial alone. Between organizations, each makes its own: see docs/peers.md.
"""
