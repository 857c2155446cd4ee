"""How well do label counts that are estimated from updates replace those that clients release?

    python benchmarks/estimated_counts.py [--seeds 10] [--first 100] [--rounds 40] [--alpha 0.1 1.0]

The federation of ``examples/digits.toml`` (30 clients, 5 per round): FedEntOpt on true counts, on noised ones (Laplace,
epsilon 0.5) and on estimates, beside random cohorts, all with equal weights and paired by seed. Entropies are of the
cohorts' true labels. The estimator was settled on seeds 0 to 4; the default seeds are others. Prints tables in
Markdown; ``docs/estimated_counts.md`` shows them.
"""

import argparse
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from entrofed.backends.inline import InlineBackend
from entrofed.experiment.build import client_table, prepare
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.client_state import ClientStateStore
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.selectors.estimated_counts import EstimatedCounts
from entrofed.suite.statistics import paired

TRUE, ESTIMATED = "true counts", "estimated counts"
ARMS: dict[str, dict[str, Any]] = {
    TRUE: {"name": "fedentopt"},
    "noised counts, epsilon 0.5": {"name": "fedentopt"},
    ESTIMATED: {"name": "fedentopt_estimated"},
    "random cohorts": {"name": "fedavg"},
}
LAST = 10


@dataclass(frozen=True)
class Outcome:
    """Of one run: mean entropy of all cohorts and of those after everybody was asked once (bits), accuracy (%)."""

    entropy: float
    later: float
    accuracy: float
    distance: float | None = None
    """Mean total variation between the estimated and the true label distributions."""


def play(arm: str, alpha: float, rounds: int, seed: int, folder: Path) -> Outcome:
    """One run."""
    table = tomllib.loads(Path("examples/digits.toml").read_text(encoding="utf-8"))
    table["data"]["alpha"] = alpha
    table["method"] |= {**ARMS[arm], "weigher": "uniform"}
    noise = {"privacy": {"epsilon": 0.5, "simulate": True}} if "epsilon" in arm else {}
    experiment = parse({**table, **noise, "rounds": rounds, "seed": seed})
    run(experiment, RunFolder(folder), backend=InlineBackend())
    records = RunFolder(folder).records()
    bits = [record.cohort_entropy or 0.0 for record in records]
    setup = prepare(experiment)
    clients = len(setup.federation.sizes)
    asked = -(-clients // experiment.method.cohort_size(clients))
    tests = [100 * record.test.accuracy for record in records[-LAST:] if record.test is not None]
    found = Outcome(statistics.mean(bits), statistics.mean(bits[asked:]), statistics.mean(tests))
    selector = setup.method.selector
    store = ClientStateStore(folder / "memory", 0)
    state, _ = Checkpoints(folder / "checkpoints", setup.layout, store).last()
    if not isinstance(selector, EstimatedCounts) or state is None:
        return found
    counts = [selector.counts(state.selector, client_table(setup, None)), setup.federation.label_counts]
    ours, true = (table / table.sum(axis=1, keepdims=True) for table in counts)
    return Outcome(found.entropy, found.later, found.accuracy, float(np.abs(ours - true).sum(axis=1).mean() / 2))


def table(alpha: float, found: Mapping[str, Sequence[Outcome]]) -> None:
    """Means over seeds, and differences from true counts with 95 % intervals and seeds won."""
    print(f"\n**Dirichlet {alpha:g}**\n")
    print("| FedEntOpt on | bits | bits once all were asked | accuracy | less true counts | seeds won | p (Wilcoxon) |")
    print("|---|---|---|---|---|---|---|")
    reference = [outcome.accuracy for outcome in found[TRUE]]
    for arm, outcomes in found.items():
        accuracy = [outcome.accuracy for outcome in outcomes]
        means = [statistics.mean(getattr(outcome, what) for outcome in outcomes) for what in ("entropy", "later")]
        spread = f" ± {statistics.stdev(accuracy):.1f}" if len(accuracy) > 1 else ""
        beside = "| | | |"
        if arm != TRUE and len(accuracy) > 1:
            test = paired(accuracy, reference)
            low, high = test.interval.low or 0.0, test.interval.high or 0.0
            differs = f"{test.difference:+.2f} ({low:+.2f} to {high:+.2f})"
            beside = f"| {differs} | {test.wins} of {len(accuracy)} | {test.wilcoxon_p:.3f} |"
        print(f"| {arm} | {means[0]:.2f} | {means[1]:.2f} | {statistics.mean(accuracy):.1f}{spread} {beside}")
    distances = [outcome.distance for outcome in found[ESTIMATED] if outcome.distance is not None]
    print(f"\nEstimates after the last round: {statistics.mean(distances):.2f} of total variation from the truth.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=100, help="the first seed")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.1, 1.0])
    options = parser.parse_args()
    for alpha in options.alpha:
        with TemporaryDirectory() as place:
            runs = {
                arm: [
                    play(arm, alpha, options.rounds, seed, Path(place) / f"{number}-{seed}")
                    for seed in range(options.first, options.first + options.seeds)
                ]
                for number, arm in enumerate(ARMS)
            }
        table(alpha, runs)
