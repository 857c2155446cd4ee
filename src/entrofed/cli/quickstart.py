"""``entrofed quickstart``: methods side by side on 30 skewed clients of scikit-learn's digits."""

from pathlib import Path

from rich.console import Console

from entrofed.cli.console import this_command
from entrofed.cli.progress import play_all
from entrofed.cli.tables.comparison import comparison_table
from entrofed.errors import ConfigError
from entrofed.experiment.config import Experiment, parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.methods import METHODS
from entrofed.suite.compare import comparison

ROUNDS = 20
SHOWN = (
    *("fedavg", "fedprox", "scaffold", "fedadam", "power_of_choice"),  # what everybody compares with
    *("fedentopt", "maxent", "fedklentropy", "max_entropy", "inv_entropy", "fedep", "feddisco"),  # by information
)
"""The methods of the quickstart; all that there are take minutes."""
OPTIONS = {"fedconcat": {"server": {"name": "concat", "encoder_rounds": ROUNDS // 2}}}
"""Where the papers' defaults are meant for longer runs."""


def experiment(method: str, seed: int) -> Experiment:
    """One method, one seed."""
    return parse(
        {
            "name": method,
            "seed": seed,
            "rounds": ROUNDS,
            "model": "digits_mlp",
            "data": {
                "name": "digits",
                "partition": "dirichlet_balanced",
                "clients": 30,
                "alpha": 0.1,
                "min_size": 5,
                "validation": 0.1,
            },
            "method": {
                "name": method,
                "cohort": 5,
                "epochs": 3,
                "batch_size": 16,
                "lr": 0.05,
                "momentum": 0.9,
                **OPTIONS.get(method, {}),
            },
        }
    )


def play(out: Path, seeds: int, console: Console, *, every_method: bool = False) -> None:
    """Run the methods on every seed (anew), and compare."""
    if seeds < 1:
        raise ConfigError(f"--seeds {seeds}: at least 1 is needed")
    methods = tuple(METHODS) if every_method else SHOWN
    runs = [
        (experiment(method, seed), RunFolder(out / method / f"seed-{seed}"))
        for method in methods
        for seed in range(seeds)
    ]
    console.print(
        f"30 clients share scikit-learn's 8x8 digits so that most know only a few of the ten classes; "
        f"{len(methods)} methods, {seeds} seeds, {ROUNDS} rounds of 5 clients."
    )
    play_all(runs, console, None, resume=False, overwrite=True)
    console.print(comparison_table(comparison([folder.path for _, folder in runs])))
    from entrofed.report import write_report  # loads what draws charts, which nobody waits for before the first round

    report = out / "report.html"
    write_report([folder for _, folder in runs], report, title="Quickstart: methods on skewed digits")
    console.print(f"Results: {out}; to look at: {report}", highlight=False, soft_wrap=True)
    command = this_command()
    words = f"Next: [bold]{command} show {out / methods[0]}[/bold], or [bold]{command} parts[/bold]"
    console.print(words, soft_wrap=True)
