"""``entrofed study adversaries``: what a peer gains by a false claim about its labels, what harm it does, what helps.

Fully connected peers share scikit-learn's digits. FedEP gives more weight to labels that differ from everybody's, so an
adversarial peer that claims to hold a single rare class gains weight. It may do no more than that (``claims``), or also
train on flipped labels, class ``c`` as ``C - 1 - c`` (``poisons``), so that its weight does harm. FedAvg and uniform
weights do not look at labels.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from entrofed.backends import InlineBackend, Workload
from entrofed.core.faults import Faults
from entrofed.core.records import RoundRecord
from entrofed.errors import ConfigError, unknown
from entrofed.experiment.config import Experiment, parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.info.pooling import Mode

CAP = 0.2
"""The most that a peer can weigh where weights are capped."""
ATTACKS = {"none": "no adversary", "claims": "one claims a rare class", "poisons": "one claims and poisons"}


@dataclass(frozen=True)
class Way:
    """A way to pool: weigher and server rule, and the title of the way whose honest run it is compared with."""

    weigher: str | dict[str, Any]
    base: str
    server: str = "average"

    @property
    def votes(self) -> bool:
        """Whether the rule counts every peer alike whose weight is above 0."""
        return self.server != "average"


def ways(modes: Sequence[str]) -> dict[str, Way]:
    """The ways of the study, each after the one that it is compared with; the server rules with the last mode.

    >>> list(ways(["histogram"]))[2:]
    ['FedEP histogram', 'FedEP histogram, cap', 'FedEP histogram, median', 'FedEP histogram, trimmed']
    """
    found = {"FedAvg": Way("data_size", "FedAvg"), "uniform": Way("uniform", "uniform")}
    for mode in modes:
        title, weigher = f"FedEP {mode}", {"name": "pooled_kl", "mode": mode}
        found[title] = Way(weigher, title)
        found[f"{title}, cap"] = Way({"name": "capped", "share": CAP, "weigher": weigher}, title)
        if mode == modes[-1]:
            found[f"{title}, median"] = Way(weigher, title, "median")
            found[f"{title}, trimmed"] = Way(weigher, title, "trimmed_mean")
    return found


class Poisoned(InlineBackend):
    """Inline; but some clients train on flipped labels, class ``c`` as ``C - 1 - c``."""

    def __init__(self, clients: set[int]) -> None:
        super().__init__()
        self._clients = clients

    def open(self, workload: Workload) -> None:
        """Flip their labels, and set up."""
        federation = workload.federation
        data, labels = federation.data, federation.data.train_y.copy()
        for client in self._clients:
            labels[federation.shards[client]] = len(data.classes) - 1 - labels[federation.shards[client]]
        super().open(replace(workload, federation=replace(federation, data=replace(data, train_y=labels))))


def experiment(way: Way, *, peers: int, adversary: bool, alpha: float, rounds: int, seed: int) -> Experiment:
    """Fully connected peers, one of which may be adversarial, evaluated at the end."""
    return parse(
        {
            "name": "adversaries",
            "seed": seed,
            "rounds": rounds,
            "evaluate_every": rounds,
            "model": "digits_mlp",
            "data": {"name": "digits", "partition": "dirichlet_balanced", "clients": peers, "alpha": alpha},
            "method": {"weigher": way.weigher, "server": way.server, "lr": 0.05, "momentum": 0.9},
            "topology": {"kind": "full"},
            "faults": {"liars": adversary / peers},
            "engine": {"backend": "inline"},
        }
    )


def play(chosen: Experiment, *, poisoned: set[int]) -> RoundRecord:
    """The record of the last round."""
    with TemporaryDirectory() as folder:
        place = RunFolder(Path(folder))
        run(chosen, place, backend=Poisoned(poisoned))
        return place.records()[-1]


def honest_metrics(record: RoundRecord, adversary: int, *, votes: bool) -> dict[str, float]:
    """Means over all peers but one: its weight with them, or its vote among those counted, and how good they are.

    >>> from entrofed.core.records import PeerRecord
    >>> peers = [PeerRecord(k, [0, 1], [0.8, 0.2], accuracy=0.5, macro_f1=0.4) for k in (0, 1)]
    >>> honest_metrics(RoundRecord(0, peers=peers), 0, votes=False)
    {'weight': 0.8, 'accuracy': 0.5, 'macro_f1': 0.4}
    """
    honest = [peer for peer in record.peers if peer.node != adversary]
    weights = []
    for peer in honest:
        given = peer.mixing.get(adversary, 0.0)
        weights.append((given > 0) / sum(weight > 0 for weight in peer.weights) if votes else given)
    return {
        "weight": statistics.mean(weights),
        "accuracy": statistics.mean(peer.accuracy for peer in honest if peer.accuracy is not None),
        "macro_f1": statistics.mean(peer.macro_f1 for peer in honest if peer.macro_f1 is not None),
    }


def study(
    *,
    seeds: int,
    peers: int = 10,
    rounds: int = 10,
    alphas: Sequence[float] = (20.0, 1.0),
    modes: Sequence[str] = ("smoothed", "histogram"),
) -> list[dict[str, Any]]:
    """One row per alpha, attack and way: mean and spread over seeds.

    ``weight``, ``accuracy`` and ``macro_f1`` as in :func:`honest_metrics`, about the same peer whether it is
    adversarial or not; ``change`` and ``change_f1`` are accuracy and macro F1 less those of the undefended way without
    an adversary, seed by seed.
    """
    if peers < 2:
        raise ConfigError(f"peers = {peers}: at least 2 are needed, an adversary and an honest one")
    for mode in modes:
        if mode not in get_args(Mode):
            raise unknown("mode of FedEP", mode, get_args(Mode))
    rows: list[dict[str, Any]] = []
    for alpha in alphas:
        honest: dict[str, list[dict[str, float]]] = {}
        for attack in ATTACKS:
            for title, way in ways(modes).items():
                found = []
                for seed in range(seeds):
                    (adversary,) = Faults(liars=1 / peers).adversarial(seed, peers)
                    chosen = experiment(
                        way, peers=peers, adversary=attack != "none", alpha=alpha, rounds=rounds, seed=seed
                    )
                    record = play(chosen, poisoned={adversary} if attack == "poisons" else set())
                    found.append(honest_metrics(record, adversary, votes=way.votes))
                if attack == "none":
                    honest[title] = [dict(one) for one in found]
                for one, before in zip(found, honest[way.base], strict=True):
                    one["change"] = one["accuracy"] - before["accuracy"]
                    one["change_f1"] = one["macro_f1"] - before["macro_f1"]
                rows.append({"alpha": alpha, "attack": attack, "way": title, "peers": peers, **_summary(found)})
    return rows


def _summary(found: list[dict[str, float]]) -> dict[str, Any]:
    row: dict[str, Any] = {"seeds": len(found)}
    for key in found[0]:
        values = [one[key] for one in found]
        row[key] = statistics.mean(values)
        row[f"{key}_std"] = statistics.stdev(values) if len(values) > 1 else None
    return row
