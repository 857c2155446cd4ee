"""Many settings of one experiment file: every combination of a grid, each an ordinary run.

>>> grid(["method.selector=fedentopt,random", "data.alpha=0.1,1"])[:2]
[{'method.selector': 'fedentopt', 'data.alpha': '0.1'}, {'method.selector': 'fedentopt', 'data.alpha': '1'}]
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from entrofed.errors import ConfigError, IdleKeyError
from entrofed.experiment.config import Experiment, read
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.sections.engine import EngineSection
from entrofed.experiment.tables import key_of
from entrofed.suite.words import file_name


def grid(options: Sequence[str]) -> list[dict[str, str]]:
    """Every combination of the values of options such as ``data.alpha=0.1,0.3,1``."""
    axes = {}
    for option in options:
        key, equals, values = option.partition("=")
        found = split(values)
        if not equals or not key.strip() or not all(found):
            raise ConfigError(f"grid {option!r}: must look like section.key=value,value; for example data.alpha=0.1,1")
        if key.strip() in axes:
            raise ConfigError(f"grid {key.strip()}: is given twice; put all its values into one")
        axes[key.strip()] = found
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def split(values: str) -> list[str]:
    """Values between commas; commas in brackets and quotes do not count.

    >>> split("[1, 2],{name='a'},3")
    ['[1, 2]', "{name='a'}", '3']
    """
    parts, depth, quote = [""], 0, ""
    for letter in values:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        depth += (letter in "[{") - (letter in "]}") if not quote else 0
        if letter == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def cell_name(setting: Mapping[str, str]) -> str:
    """A name for one combination, made of the last step of each key, or the whole key where two end alike.

    >>> cell_name({"method.selector": "random", "data.alpha": "0.1"})
    'selector-random+alpha-0.1'
    """
    steps = [key.rsplit(".", 1)[-1] for key in setting]
    words = [
        f"{key if steps.count(step) > 1 else step}-{value}"
        for step, (key, value) in zip(steps, setting.items(), strict=True)
    ]
    return "+".join(file_name(word).strip("-") for word in words)


def folder_of(file: Path, overrides: Sequence[str], unset: Sequence[str], out: Path) -> Path:
    """Where the runs of a sweep lie: beside the runs of the file itself, not among them."""
    return out / f"{read(file, overrides, unset=unset).name}-sweep"


def plan(
    file: Path,
    overrides: Sequence[str],
    settings: Sequence[Mapping[str, str]],
    seeds: int,
    folder: Path,
    *,
    unset: Sequence[str] = (),
) -> list[tuple[Experiment, RunFolder]]:
    """The runs, seed by seed, so that what is stopped early has compared all settings on some seeds.

    Keys that do not apply to what a setting chooses are left out of it; settings that are then the same are one.
    """
    first = read(file, overrides, unset=unset)
    fitting: list[tuple[dict[str, str], list[str]]] = []
    for setting in settings:
        found = _fitting(file, overrides, setting, unset)
        if found[0] == setting or found not in fitting:
            fitting.append(found)
    runs: list[tuple[Experiment, RunFolder]] = []
    for seed in range(first.seed, first.seed + seeds):
        for setting, changes in fitting:
            name = cell_name(setting)
            experiment = read(file, [*changes, f"name='{first.name}+{name}'", f"seed={seed}"], unset=unset)
            runs.append((experiment, RunFolder(folder / name / f"seed-{seed}")))
    folders = [folder.path for _, folder in runs]
    if len(set(folders)) < len(folders):
        twice = next(path for path in folders if folders.count(path) > 1)
        raise ConfigError(f"two settings of the grid would both be called {twice.parent.name!r}; name values apart")
    return runs


def _fitting(
    file: Path, overrides: Sequence[str], setting: Mapping[str, str], unset: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """A setting without the keys that do not apply to what it chooses, and what is changed in the file for it."""
    kept, base = dict(setting), list(overrides)
    while True:
        changes = [*base, *(f"{key}={value}" for key, value in kept.items())]
        try:
            read(file, changes, unset=unset)
        except IdleKeyError as idle:
            if idle.choice not in kept:
                raise
            kept.pop(idle.key, None)
            base = [text for text in base if key_of(text) != idle.key]
        else:
            return kept, changes


def jobs_for(engines: Sequence[EngineSection]) -> int:
    """How many runs to play at once, given their engines, where nobody says.

    As many as there are workers for each, if the runs keep at least half of those busy: a single run of small clients
    uses one core, and one of large clients spreads over all by itself. One after the other on a GPU, on a machine
    elsewhere, and with ``inline``, which asks for one process.

    >>> jobs_for([EngineSection(workers=4)] * 12), jobs_for([EngineSection(workers=4)] * 3)
    (4, 3)
    >>> jobs_for([EngineSection(workers=8)] * 3), jobs_for([EngineSection(workers=4, backend="inline")] * 12)
    (1, 1)
    """
    if any(engine.backend not in ("auto", "processes") or engine.device != "cpu" for engine in engines):
        return 1
    workers = min((engine.workers for engine in engines), default=1)
    return min(workers, len(engines)) if 2 * len(engines) >= workers else 1
