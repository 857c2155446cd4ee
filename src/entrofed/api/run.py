"""One call that runs a method on a federation, once per seed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from entrofed.api.result import Result, Temporary
from entrofed.backends import FLOWER
from entrofed.cli.progress import RunProgress
from entrofed.client.metrics import Metric
from entrofed.core.parts import Method
from entrofed.core.records import RoundRecord
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError, unknown
from entrofed.experiment.build import Setup, prepare
from entrofed.experiment.chosen import named
from entrofed.experiment.config import Experiment, parse, read
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run as play_rounds
from entrofed.experiment.sections.engine import EngineSection
from entrofed.experiment.sections.method import MethodSection
from entrofed.experiment.toml import dumps, flat
from entrofed.methods import METHODS
from entrofed.registry import PART_KINDS, completed, describe
from entrofed.suite.play import Workers
from entrofed.suite.words import file_name
from entrofed.tracking import Tracker

SECTIONS = {"method": MethodSection.model_fields, "engine": EngineSection.model_fields}
ELSEWHERE = ("given", "seed", "data", "model", "method", "name")
"""Keys of an experiment file that are arguments of their own here, or belong to the federation."""
SAID_BY = {"name": "folder, whose name is the experiment's", "seed": "seeds, such as seeds=[3]", "data": "federation"}
"""The argument that says what such a key says in a file."""

OnRound = Callable[[RoundRecord], None]
Planned = tuple[Experiment, Callable[[], Setup]]
"""An experiment, and what makes it ready to run."""


def run(
    federation: Federation | Callable[[int], Federation] | str | Path,
    *,
    model: Any = None,
    method: Any = None,
    rounds: int | None = None,
    seeds: int | Iterable[int] | None = None,
    folder: str | Path | None = None,
    metrics: Iterable[str | Metric] = (),
    on_round: OnRound | None = None,
    trackers: Sequence[Tracker] = (),
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    data_dir: str | Path | None = None,
    **settings: Any,
) -> Result:
    """Train with one method on one federation, once per seed; the same seed gives the same bits.

    Args:
        federation: The federation; a function of the seed that returns one, if the partition should change with the
            seed; or the path of an experiment file.
        model: A callable that returns an ``nn.Module`` (called without arguments, or with the shape of a sample and the
            number of classes), a module to start from, a name such as ``"cnn"``, or a table such as ``{"name": "mlp",
            "hidden": [64, 32]}``. Without one: a network that fits the kind of data.
        method: A name, a method such as ``ef.methods.fedentopt(weigher=MyWeigher())``, or a table of a name and parts.
            Without one: FedAvg.
        rounds: By default 10, or those of the file.
        seeds: The number of seeds, counted from 0 or from the file's seed; or a list of them.
        folder: The folder for the results, with one folder per seed in it; its name is the experiment's. Without it
            results are deleted together with the result object.
        metrics: Metrics besides accuracy, loss and F1: names such as ``"auroc"``, or functions of logits and
            labels that return a number.
        on_round: A function that is called with the record of each round.
        trackers: Objects that follow the run, beside those that ``track`` names (``track=["tensorboard"]``).
        resume: Continue the runs in ``folder``.
        overwrite: Replace the runs in ``folder``, once the new run has its first checkpoint.
        progress: Show progress: bars in a terminal, lines elsewhere.
        data_dir: The folder with the datasets of an experiment file.
        settings: Any other setting of an experiment file: keys of ``[method]`` (``cohort``, ``lr``, ``epochs``, ...),
            of ``[engine]`` (``backend``, ``workers``, ``device``, ...) and of the file itself (``evaluate_every``,
            ``stop``, ``privacy``, ``faults``, ``topology``, ...).

    >>> import numpy as np
    >>> x, y = np.random.default_rng(0).normal(size=(80, 3)), np.arange(80) % 2
    >>> federation = Federation.partition(x + y[:, None], y, "iid", clients=4, test=0.25)
    >>> result = run(federation, rounds=3, cohort=2, lr=0.1, backend="inline", progress=False)
    >>> len(result.records), result.summary["rounds"]
    (3, 3)
    """
    if resume and overwrite:
        raise ConfigError("resume = True continues a run and overwrite = True deletes it: choose one")
    names, functions = named(metrics)
    given = {"rounds": rounds, "metrics": names or None}
    table = _sorted({**settings, **{key: value for key, value in given.items() if value is not None}})
    if folder is not None:
        table["name"] = file_name(Path(folder).name)
    if isinstance(federation, str | Path):
        for what, value in (("model", model), ("method", method)):
            if value is not None:
                raise ConfigError(f"{what}: the experiment file names it; leave it out here, or change {federation}")
        ready = partial(prepare, data_directory=None if data_dir is None else Path(data_dir), metrics=functions)
        plans = _of_file(Path(federation), table, seeds, ready)
    else:
        plans = _of_objects(federation, model, method, table, seeds, partial(prepare, metrics=functions))
    kept = Temporary() if folder is None else None
    folders: list[RunFolder] = []
    builds: list[Callable[[], Any]] = []
    watch, workers = RunProgress(Console(stderr=True, quiet=not progress), 1), Workers()
    try:
        with watch.shown():
            for experiment, setup_of in plans:
                root = kept.path / experiment.name if kept is not None else Path(folder or "")
                folders.append(RunFolder(root / f"seed-{experiment.seed}"))
                folders[-1].check(experiment, resume=resume, overwrite=overwrite)
                watch.run_started(experiment, folders[-1])
                setup = setup_of()
                summary = play_rounds(
                    experiment,
                    folders[-1],
                    backend=workers.of(experiment.engine),
                    resume=resume,
                    overwrite=overwrite,
                    observer=partial(_tell, watch, on_round, experiment, folders[-1]),
                    setup=setup,
                    trackers=trackers,
                )
                builds.append(setup.build)
                watch.run_finished(folders[-1], summary)
    finally:
        workers.close()
    return Result(tuple(folders), tuple(builds), kept)


def _tell(
    watch: RunProgress, on_round: OnRound | None, experiment: Experiment, folder: RunFolder, record: RoundRecord
) -> None:
    watch.round_finished(experiment, folder, record)
    if on_round is not None:
        on_round(record)


def _of_file(
    path: Path, table: Mapping[str, Any], seeds: int | Iterable[int] | None, ready: Callable[..., Setup]
) -> Iterator[Planned]:
    changes = [f"{key}={dumps({'v': value}).removeprefix('v = ').strip()}" for key, value in flat(table).items()]
    first = read(path, changes)
    _refuse_flower(first)
    for seed in _seeds(seeds, first.seed):
        experiment = parse({**first.model_dump(exclude_unset=True), "seed": seed})
        yield experiment, partial(ready, experiment)


def _of_objects(
    federation: Federation | Callable[[int], Federation],
    model: Any,
    method: Any,
    table: dict[str, Any],
    seeds: int | Iterable[int] | None,
    ready: Callable[..., Setup],
) -> Iterator[Planned]:
    if not isinstance(federation, Federation) and not callable(federation):
        raise ConfigError(
            f"the first argument is a {type(federation).__name__}; a Federation is expected, a function of the seed "
            "that returns one, or the path of an experiment file"
        )
    given = {"data"}
    spec: Any = "auto" if model is None else model
    if not isinstance(spec, str | Mapping):
        given.add("model")
        spec = getattr(model, "__name__", type(model).__name__)
    recipe = {} if method is None else {"name": method} if isinstance(method, str) else method
    handed: Method | None = None
    if isinstance(method, Method):
        given.add("method")
        handed = completed(method)
        recipe = {kind: _described(getattr(handed, kind)) for kind in PART_KINDS}
        recipe["name"] = _name_of(handed)
    elif not isinstance(recipe, Mapping):
        raise ConfigError(
            f"method: a {type(method).__name__} was given; a name, a table of a name and parts, or a method such as "
            "entrofed.methods.fedentopt() is expected"
        )
    named = {"name": file_name(recipe.get("name", "fedavg")), **table}
    for seed in _seeds(seeds, 0):
        dealt = federation if isinstance(federation, Federation) else federation(seed)
        if not isinstance(dealt, Federation):
            raise ConfigError(
                f"the function of the seed returned a {type(dealt).__name__}; it must return a Federation"
            )
        data = {"name": dealt.data.name, "digest": dealt.digest, "clients": len(dealt.shards)}
        sections = {"seed": seed, "given": sorted(given), "model": spec, "data": data}
        experiment = parse({**named, **sections, "method": {**recipe, **table.get("method", {})}}, where="run()")
        _refuse_flower(experiment)
        network = model if "model" in given else None
        yield experiment, partial(ready, experiment, federation=dealt, model=network, method=handed)


def _refuse_flower(experiment: Experiment) -> None:
    if experiment.engine.backend == FLOWER:
        raise ConfigError(
            f"backend = {FLOWER!r}: from Python use entrofed.flower.EntroStrategy, or run an experiment file with "
            "'entrofed run FILE --backend flower'"
        )


def _name_of(method: Method) -> str:
    """The recipe's name, with those of the parts that are not its own.

    >>> _name_of(METHODS["fedavg"](weigher="uniform"))
    'fedavg+uniform'
    """
    if method.name not in METHODS:
        return method.name or "custom"
    own = METHODS[method.name]()
    others = [getattr(method, kind) for kind in PART_KINDS if getattr(method, kind) != getattr(own, kind)]
    return "+".join([method.name, *(part.name for part in others)])


def _described(part: Any) -> dict[str, Any]:
    """The part's table, as far as it can stand in a file."""
    plain = (str, int, float, bool)
    return {key: value if isinstance(value, plain) else str(value) for key, value in describe(part).items()}


def _sorted(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as the tables of an experiment file.

    >>> _sorted({"lr": 0.1, "workers": 2, "evaluate_every": 5})
    {'method': {'lr': 0.1}, 'engine': {'workers': 2}, 'evaluate_every': 5}
    """
    table: dict[str, Any] = {}
    top = [key for key in Experiment.model_fields if key not in ELSEWHERE]
    for key, value in settings.items():
        section = next((name for name, keys in SECTIONS.items() if key in keys and key not in ELSEWHERE), None)
        if section is not None:
            table.setdefault(section, {})[key] = value
        elif key in top:
            table[key] = {**table.get(key, {}), **value} if isinstance(value, Mapping) else value
        elif key in SAID_BY:
            raise ConfigError(f"{key} is a key of experiment files; here the argument for it is {SAID_BY[key]}")
        else:
            every = {*top, *(key for keys in SECTIONS.values() for key in keys)}
            raise unknown("setting", key, every - {*ELSEWHERE})
    return table


def _seeds(seeds: int | Iterable[int] | None, first: int) -> list[int]:
    """Which seeds: so many from the first on, or those given.

    >>> _seeds(3, 0), _seeds([7, 8], 0), _seeds(None, 42)
    ([0, 1, 2], [7, 8], [42])
    """
    found = (
        list(range(first, first + (1 if seeds is None else seeds)))
        if seeds is None or isinstance(seeds, int)
        else list(seeds)
    )
    if not found or not all(isinstance(seed, int) and seed >= 0 for seed in found) or len(set(found)) < len(found):
        raise ConfigError(f"seeds = {seeds!r}: a number of seeds from 1 on, or different whole numbers from 0 on")
    return found
