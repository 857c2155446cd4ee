"""Search for good settings with Optuna's tree-structured Parzen estimator; every trial is a set of ordinary runs.

What a search maximizes should not be the test set, or the test set is no longer one: by default it is the accuracy on
held-out samples of the clients (``data.holdout``). Those are the samples of a round's cohort, which change with the
cohort; where a run is judged (``stop``), ``accuracy_judged_last_10`` is the accuracy on the same data in every round.
Bergstra et al., Algorithms for Hyper-Parameter Optimization, NeurIPS 2011.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from entrofed.errors import ConfigError, unknown
from entrofed.experiment.config import Experiment, read
from entrofed.experiment.run_folder import RunFolder
from entrofed.suite.compare import METRICS as COMPARED
from entrofed.suite.sweep import plan, split

if TYPE_CHECKING:
    import optuna

HELD_OUT, JUDGED = "accuracy_id_last_10", "accuracy_judged_last_10"
METRICS = (HELD_OUT, JUDGED, *COMPARED)

Play = Callable[[list[tuple[Experiment, RunFolder]]], object]


def spaces(options: Sequence[str]) -> "dict[str, optuna.distributions.BaseDistribution]":
    """What is searched: ranges such as ``method.lr=0.001..0.1 log``, values such as ``method.name=fedavg,fedprox``."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    found: dict[str, optuna.distributions.BaseDistribution] = {}
    for option in options:
        key, equals, raw = option.partition("=")
        words = raw.split()
        low, dots, high = (words[0] if words else "").partition("..")
        if not equals or not key.strip() or not raw.strip() or words[1:] not in ([], ["log"]):
            raise ConfigError(_rule(option))
        if not dots:
            found[key.strip()] = CategoricalDistribution(split(raw))
            continue
        try:
            log, whole = words[1:] == ["log"], low.isdigit() and high.isdigit()
            found[key.strip()] = (
                IntDistribution(int(low), int(high), log=log)
                if whole
                else FloatDistribution(float(low), float(high), log=log)
            )
        except ValueError as error:
            raise ConfigError(f"{_rule(option)} ({error})") from None
    return found


def _rule(option: str) -> str:
    return (
        f"tune {option!r}: must be a range such as method.epochs=1..10 or 'method.lr=0.001..0.1 log', "
        "or values such as method.selector=fedentopt,random"
    )


def search(
    file: Path,
    overrides: Sequence[str],
    options: Sequence[str],
    *,
    trials: int,
    seeds: int,
    metric: str,
    folder: Path,
    play: Play,
    unset: Sequence[str] = (),
) -> "list[optuna.trial.FrozenTrial]":
    """Play trials until there are as many as asked for; goes on where it was stopped. The best comes first.

    ``folder`` is for the runs of all trials; ``play`` plays those of one. Each trial draws from its own stream, so a
    search that was stopped proposes what the unbroken one would have proposed.
    """
    try:
        import optuna
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise ConfigError("a search needs Optuna: pip install 'entrofed[tune]'") from None
    base = read(file, overrides, unset=unset)
    if metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    if metric == HELD_OUT and not base.data.holdout:
        raise ConfigError(
            f"{file}: a search maximizes the accuracy on held-out samples, and there are none; "
            "set data.holdout, for example to 0.1. (The metric accuracy_last_10 peeks at the test set.)"
        )
    if metric == JUDGED and (base.stop is None or base.stop.on == "test"):
        raise ConfigError(
            f"{file}: {JUDGED} is known of runs that are judged by data that is no test data; set stop.patience, and "
            'stop.on = "validation" (with data.validation = 0.1) or "holdout" (with data.holdout = 0.1)'
        )
    space = spaces(options)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    journal = JournalFileBackend(str(folder / "search.journal"))
    study = optuna.create_study(
        storage=optuna.storages.JournalStorage(journal),
        study_name=f"{base.name}: {' '.join(sorted(options))}: {metric}, {seeds} seeds",
        direction="maximize",
        load_if_exists=True,
    )
    while len(study.get_trials(states=[optuna.trial.TrialState.COMPLETE])) < trials:
        stopped = study.get_trials(states=[optuna.trial.TrialState.RUNNING])
        if stopped:
            number, params = stopped[0].number, stopped[0].params
        else:
            study.sampler = optuna.samplers.TPESampler(seed=base.seed + len(study.trials))
            number, params = (trial := study.ask(space)).number, trial.params
        runs = plan(file, overrides, [setting_of(params)], seeds, folder, unset=unset)
        play(runs)
        study.tell(number, mean(_value(run, metric) for _, run in runs))
    done = study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
    return sorted(done, key=lambda trial: -float(trial.value or 0.0))


def setting_of(params: Mapping[str, Any]) -> dict[str, str]:
    """A trial as it is written on the command line.

    >>> setting_of({"method.lr": 0.0123456789, "method.epochs": 3})
    {'method.lr': '0.0123457', 'method.epochs': '3'}
    """
    return {key: f"{value:.6g}" if isinstance(value, float) else str(value) for key, value in params.items()}


def _value(folder: RunFolder, metric: str) -> float:
    summary: dict[str, Any] = folder.summary() or {}
    return float(summary[metric])
