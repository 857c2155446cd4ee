"""The settings of each method: the same small search for all, on other seeds, judged on data that is no test data.

Of each federation ``FEDERATION.toml`` keeps what was chosen, beside the results::

    [fedavg]
    trials = 6
    seeds = [100, 101, 102]
    accuracy = 0.93              # mean of the last ten rounds on the server's validation set, over those seeds
    search = ["method.lr=0.01..0.2 log"]

    [fedavg.chosen]
    "method.lr" = 0.05
"""

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from entrofed.errors import ConfigError, DataError
from entrofed.experiment.toml import dumps
from entrofed.files import write_whole
from entrofed.leaderboard.board import FIRST_TUNING_SEED, BoardFederation, BoardMethod, cell_of
from entrofed.papers.reported import merged
from entrofed.suite.tune import JUDGED, Play, search, setting_of


@dataclass(frozen=True)
class Chosen:
    """What a search came to."""

    trials: int
    seeds: tuple[int, ...]
    accuracy: float
    search: tuple[str, ...]
    chosen: Mapping[str, Any]
    """By key, such as ``method.lr``."""

    @property
    def setting(self) -> dict[str, Any]:
        """As an experiment file takes it."""
        return nested(self.chosen)


def tune(federation: BoardFederation, method: BoardMethod, out: Path, play: Play) -> Chosen:
    """Search for the settings of a method; goes on where it was stopped. ``play`` plays the runs of one trial."""
    tuning = federation.tuning
    if tuning is None:
        raise ConfigError(f"{federation.id}: no settings are sought here; every method has the federation's")
    table = cell_of(federation, method.column({})).experiment(method.column({}), seed=FIRST_TUNING_SEED)
    table = merged(table, tuning.setting)
    # patience of all rounds: nothing ends early, but every evaluated round is judged on the validation set
    table |= {"name": method.id, "stop": {"patience": table["rounds"], "on": "validation"}}
    folder = out / federation.id
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{method.id}.toml"
    write_whole(file, dumps(table))
    options = [*tuning.search, *method.search]
    how: dict[str, Any] = {"trials": tuning.trials, "seeds": tuning.seeds, "metric": JUDGED}
    found = search(file, [], options, folder=folder / method.id, play=play, **how)[0]
    chosen = {key: tomllib.loads(f"value = {value}")["value"] for key, value in setting_of(found.params).items()}
    seeds = tuple(range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + tuning.seeds))
    return Chosen(tuning.trials, seeds, float(found.value or 0.0), tuple(options), chosen)


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by key as tables.

    >>> nested({"method.lr": 0.05, "method.server.beta": 0.9})
    {'method': {'lr': 0.05, 'server': {'beta': 0.9}}}
    """
    table: dict[str, Any] = {}
    for key, value in settings.items():
        *path, last = key.split(".")
        inner = table
        for step in path:
            inner = inner.setdefault(step, {})
        inner[last] = value
    return table


def settings_file(folder: Path, federation: str) -> Path:
    """Where the settings of a federation lie."""
    return folder / f"{federation}.toml"


def read_settings(folder: Path, federation: str) -> dict[str, Chosen]:
    """By method; nothing, if none were chosen yet."""
    path = settings_file(folder, federation)
    if not path.exists():
        return {}
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        return {
            name: Chosen(**{**table, "seeds": tuple(table["seeds"]), "search": tuple(table["search"])})
            for name, table in tables.items()
        }
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"{path}: not readable as chosen settings: {error}; remove it, and they are sought anew"
        ) from None


def keep_settings(folder: Path, federation: str, found: Mapping[str, Chosen]) -> None:
    """Write the settings of a federation beside those that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    every = {**read_settings(folder, federation), **found}
    write_whole(settings_file(folder, federation), dumps({name: asdict(one) for name, one in sorted(every.items())}))
