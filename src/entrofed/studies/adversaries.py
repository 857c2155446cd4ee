"""``entrofed study liars``: what one peer gains by lying about its labels, what harm it does, and what helps.

Fully connected peers share scikit-learn's digits. FedEP gives more weight to labels that differ from everybody's, so a
peer that claims to hold a single rare class gains weight. It may do no more than that (``claims``), or also train on
labels that are turned round, class ``c`` as ``C - 1 - c`` (``poisons``), so that its weight does harm. FedAvg and
uniform weights do not look at labels.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import altair as alt
import torch
from rich.table import Table

from entrofed.backends.inline import InlineBackend
from entrofed.core.faults import Faults
from entrofed.core.params import Layout
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError, unknown
from entrofed.experiment.config import Experiment, parse
from entrofed.experiment.run_folder import Record, RunFolder
from entrofed.experiment.runner import run
from entrofed.info.pooling import Mode

CAP = 0.2
"""The most that a peer can weigh where weights are capped."""
ATTACKS = {"none": "nobody lies", "claims": "one claims a rare class", "poisons": "one claims and poisons"}
COLOURS, SHAPES = ("#000000", "#0072B2", "#D55E00"), ("circle", "square", "triangle-up")


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
    """Inline; but some clients train on labels that are turned round, class ``c`` as ``C - 1 - c``."""

    def __init__(self, clients: set[int]) -> None:
        super().__init__()
        self._clients = clients

    def host(
        self,
        federation: Federation,
        build: Callable[[], torch.nn.Module],
        layout: Layout,
        *,
        compiled: bool = False,
    ) -> None:
        """Turn their labels round, and set up."""
        data, labels = federation.data, federation.data.train_y.copy()
        for client in self._clients:
            labels[federation.shards[client]] = len(data.classes) - 1 - labels[federation.shards[client]]
        super().host(replace(federation, data=replace(data, train_y=labels)), build, layout, compiled=compiled)


def experiment(way: Way, *, peers: int, lies: bool, alpha: float, rounds: int, seed: int) -> Experiment:
    """Fully connected peers, one of which may lie, evaluated at the end."""
    return parse(
        {
            "name": "liars",
            "seed": seed,
            "rounds": rounds,
            "evaluate_every": rounds,
            "model": "digits_mlp",
            "data": {"name": "digits", "partition": "dirichlet_balanced", "clients": peers, "alpha": alpha},
            "method": {"weigher": way.weigher, "server": way.server, "lr": 0.05, "momentum": 0.9},
            "topology": {"kind": "full"},
            "faults": {"liars": lies / peers},
            "engine": {"backend": "inline"},
        }
    )


def play(chosen: Experiment, *, poisoned: set[int]) -> Record:
    """The record of the last round."""
    with TemporaryDirectory() as folder:
        place = RunFolder(Path(folder))
        run(chosen, place, backend=Poisoned(poisoned))
        return place.records()[-1]


def figures(record: Record, liar: int, *, votes: bool) -> dict[str, float]:
    """Means over all peers but one: its weight with them, or its vote among those counted, and how good they are.

    >>> peers = [{"node": k, "from": [0, 1], "weights": [0.8, 0.2], "accuracy": 0.5, "macro_f1": 0.4} for k in (0, 1)]
    >>> figures({"peers": peers}, 0, votes=False)
    {'weight': 0.8, 'accuracy': 0.5, 'macro_f1': 0.4}
    """
    honest = [entry for entry in record["peers"] if entry["node"] != liar]
    weights = []
    for entry in honest:
        given = dict(zip(entry["from"], entry["weights"], strict=True))
        own = given.get(liar, 0.0)
        weights.append((own > 0) / sum(weight > 0 for weight in given.values()) if votes else own)
    found = {"weight": weights} | {key: [entry[key] for entry in honest] for key in ("accuracy", "macro_f1")}
    return {key: statistics.mean(values) for key, values in found.items()}


def study(
    *,
    seeds: int,
    peers: int = 10,
    rounds: int = 10,
    alphas: Sequence[float] = (20.0, 1.0),
    modes: Sequence[str] = ("smoothed", "histogram"),
) -> list[dict[str, Any]]:
    """One row an alpha, attack and way: mean and spread over seeds.

    ``weight``, ``accuracy`` and ``macro_f1`` as in :func:`figures`, about the same peer whether it lies or not;
    ``change`` and ``change_f1`` are accuracy and macro F1 less those of the undefended way where nobody lies, seed by
    seed.
    """
    if peers < 2:
        raise ConfigError(f"peers = {peers}: at least 2 are needed, one that lies and one that does not")
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
                    lying = Faults(liars=1 / peers).lying(seed, peers)
                    chosen = experiment(way, peers=peers, lies=attack != "none", alpha=alpha, rounds=rounds, seed=seed)
                    record = play(chosen, poisoned=lying if attack == "poisons" else set())
                    found.append(figures(record, *lying, votes=way.votes))
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


def tables(rows: list[dict[str, Any]]) -> Iterator[Table]:
    """The study for a terminal, a table an alpha."""
    for alpha in dict.fromkeys(row["alpha"] for row in rows):
        table = Table("way", "weight", "accuracy", "macro F1", "change")
        table.title = f"A liar among {rows[0]['peers']} peers, Dirichlet {alpha:g}"
        table.caption = (
            f"mean and spread over seeds: {rows[0]['seeds']}; weight: of the liar's model with the others (median, "
            "trimmed: its vote); accuracy, macro F1: of the others, in %; change: of the accuracy, in points, from the "
            f"same weighing without defence and liar; cap: no weight above {CAP:g}; poisons: trains on labels turned "
            "round"
        )
        for column in table.columns:
            column.no_wrap = True
        for attack, words in ATTACKS.items():
            table.add_section()
            table.add_row(f"[bold]{words}[/bold]")
            for row in (row for row in rows if (row["alpha"], row["attack"]) == (alpha, attack)):
                table.add_row(
                    row["way"],
                    _spread(row, "weight", ".2f"),
                    *(_spread(row, key, ".1f", 100) for key in ("accuracy", "macro_f1")),
                    _spread(row, "change", "+.1f", 100),
                )
        yield table


def _spread(row: dict[str, Any], key: str, form: str, scale: float = 1) -> str:
    mean, std = row[key], row[f"{key}_std"]
    return f"{scale * mean:{form}}" + ("" if std is None else f"±{scale * std:{form.lstrip('+')}}")


def chart(rows: list[dict[str, Any]]) -> alt.FacetChart:
    """The liar's weight and the others' accuracy, way by way and attack by attack, a row of panels an alpha."""
    sides = {"weight": "Weight of the liar (line: an equal share)", "accuracy": "Accuracy of the others"}
    shown = [
        {
            "way": row["way"],
            "attack": ATTACKS[row["attack"]],
            "panel": f"Dirichlet {row['alpha']:g}",
            "figure": words,
            "value": row[key],
            "low": max(row[key] - (row[f"{key}_std"] or 0.0), 0.0),
            "high": min(row[key] + (row[f"{key}_std"] or 0.0), 1.0),
            "equal": 1 / row["peers"] if key == "weight" else None,
        }
        for row in rows
        for key, words in sides.items()
    ]
    attacks = list(ATTACKS.values())
    titles, panels = (list(dict.fromkeys(one[key] for one in shown)) for key in ("way", "panel"))
    plain = alt.Chart(alt.InlineData(values=shown))
    base = plain.encode(
        y=alt.Y("way:N", sort=titles, title=None, axis=alt.Axis(grid=True, tickBand="extent")),
        yOffset=alt.YOffset("attack:N", sort=attacks),
        color=alt.Color("attack:N", sort=attacks, title="Liar", scale=alt.Scale(domain=attacks, range=COLOURS)),
    )
    bars = base.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q", title=None), x2="high:Q")
    points = base.mark_point(filled=True, size=50, opacity=1).encode(
        x=alt.X("value:Q", scale=alt.Scale(domain=[0, 1])),
        shape=alt.Shape("attack:N", sort=attacks, title="Liar", scale=alt.Scale(domain=attacks, range=SHAPES)),
        tooltip=["way:N", "attack:N", alt.Tooltip("value:Q", format=".3f")],
    )
    equal = plain.mark_rule(strokeDash=[4, 3], color="#555").encode(x="min(equal):Q")
    title = alt.Title(
        "What a peer gains by lying about its labels, and what helps",
        subtitle="mean and spread over seeds; poisons: also trains on labels turned round",
        anchor="start",
    )
    layers = alt.layer(equal, bars, points).properties(width=260, height=alt.Step(9))
    return layers.facet(
        row=alt.Row("panel:N", sort=panels, title=None),
        column=alt.Column("figure:N", sort=list(sides.values()), title=None),
    ).properties(title=title)
