"""Many settings of one experiment file: every combination of a grid, each an ordinary run.

>>> grid(["method.selector=fedentopt,random", "data.alpha=0.1,1"])[:2]
[{'method.selector': 'fedentopt', 'data.alpha': '0.1'}, {'method.selector': 'fedentopt', 'data.alpha': '1'}]
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from entrofed.errors import ConfigError
from entrofed.experiment.config import Experiment, read
from entrofed.experiment.run_folder import RunFolder
from entrofed.suite.words import file_name


def grid(options: Sequence[str]) -> list[dict[str, str]]:
    """Every combination of the values of options such as ``data.alpha=0.1,0.3,1``."""
    axes = {}
    for option in options:
        key, equals, values = option.partition("=")
        found = split(values)
        if not equals or not key.strip() or not all(found):
            raise ConfigError(f"--grid {option!r} must look like section.key=value,value; for example data.alpha=0.1,1")
        if key.strip() in axes:
            raise ConfigError(f"--grid {key.strip()} is given twice; put all its values into one")
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


def plan(
    file: Path, overrides: Sequence[str], settings: Sequence[Mapping[str, str]], seeds: int, out: Path
) -> list[tuple[Experiment, RunFolder]]:
    """The runs, seed by seed, so that what is stopped early has compared all settings on some seeds."""
    first = read(file, overrides)
    runs: list[tuple[Experiment, RunFolder]] = []
    for seed in range(first.seed, first.seed + seeds):
        for setting in settings:
            name = cell_name(setting)
            changes = [f"{key}={value}" for key, value in setting.items()]
            experiment = read(file, [*overrides, *changes, f"name='{first.name}+{name}'", f"seed={seed}"])
            runs.append((experiment, RunFolder(out / first.name / name / f"seed-{seed}")))
    folders = [folder.path for _, folder in runs]
    if len(set(folders)) < len(folders):
        twice = next(path for path in folders if folders.count(path) > 1)
        raise ConfigError(f"two settings of the grid would both be called {twice.parent.name!r}; name values apart")
    return runs
