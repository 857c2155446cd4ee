"""What came of an experiment: of its seeds, each a run folder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from shutil import rmtree
from statistics import mean, stdev
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from weakref import finalize

from entrofed.core.records import RoundRecord
from entrofed.errors import CheckpointError, ConfigError
from entrofed.experiment.run_folder import RunFolder, find_runs

if TYPE_CHECKING:
    import torch

    from entrofed.suite.target import Reached


class Temporary:
    """A folder that goes with the last result that holds it."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="entrofed-"))
        finalize(self, rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True, eq=False)
class Result:
    """The runs of an experiment, one per seed. Reading a result never runs code of the experiment.

    ``records``, ``summary`` and ``model`` are those of the first seed; ``result[1]`` is the second seed's result.
    """

    folders: tuple[RunFolder, ...]
    _builds: tuple[Callable[[], Any], ...] = field(default=(), repr=False)
    _kept: Temporary | None = field(default=None, repr=False)
    """Where the folders lie, if nobody named a place."""

    def __len__(self) -> int:
        return len(self.folders)

    def __getitem__(self, index: int) -> "Result":
        return Result(
            (self.folders[index],),
            self._builds[index : index + 1] if index >= 0 else self._builds[index:][:1],
            self._kept,
        )

    @property
    def name(self) -> str:
        """The experiment's, as tables show it."""
        return self.folders[0].experiment().name

    @property
    def seeds(self) -> list[int]:
        """Those that were run."""
        return [folder.experiment().seed for folder in self.folders]

    @property
    def path(self) -> Path:
        """The run folder of the first seed."""
        return self.folders[0].path

    @property
    def records(self) -> list[RoundRecord]:
        """Of each round, of the first seed."""
        return self.folders[0].records()

    @property
    def summary(self) -> dict[str, Any]:
        """The final metrics of the first seed."""
        return _summary(self.folders[0])

    @property
    def accuracy(self) -> float:
        """On the test part after the last round, mean over seeds."""
        return float(mean(_summary(folder)["accuracy"] for folder in self.folders))

    def table(self, which: str = "rounds") -> Any:
        """All seeds as a pyarrow table: a row per round, or with ``"clients"`` a row per round and client used."""
        from entrofed.export.tables import tables

        found = tables(list(self.folders))
        if which not in found:
            raise ConfigError(f"table {which!r}: there are {' and '.join(map(repr, found))}")
        return found[which]

    @property
    def model(self) -> "torch.nn.Module":
        """The trained network of the first seed, in evaluation mode; it takes standardized inputs."""
        if not self._builds:
            raise ConfigError(
                f"{self.path}: to build the network needs its code, and reading a run loads none; build it yourself "
                "and fill it: MyNet().load_state_dict(result.state_dict())"
            )
        network = self._builds[0]()
        network.load_state_dict(self.state_dict())
        return network.eval()  # type: ignore[no-any-return]

    def state_dict(self) -> "dict[str, torch.Tensor]":
        """The weights of the trained network of the first seed, by torch's names."""
        from safetensors.torch import load_file

        path = self.path / "model.safetensors"
        if not path.is_file():
            raise CheckpointError(f"{path}: there is no such file; the run is not finished: resume it")
        return load_file(path)

    def export(self, path: str | Path) -> Path:
        """Write the model of the first seed for other programs: as ``.safetensors``, ``.pt2`` or ``.onnx``."""
        from entrofed.export.model import export_model

        export_model(self.folders[0], Path(path), self._builds[0] if self._builds else None)
        return Path(path)

    def to_target(self, target: float) -> "list[Reached | None]":
        """Rounds, megabytes and seconds to an accuracy on the test part, of each seed; None if it was not reached."""
        from entrofed.suite.target import to_target

        return [to_target(folder.records(), target) for folder in self.folders]

    def report(self, path: str | Path = "report.html", title: str | None = None) -> Path:
        """Write one self-contained page about all seeds."""
        from entrofed.report import write_report

        write_report(list(self.folders), Path(path), title=title)
        return Path(path)

    def chart(self) -> Any:
        """Accuracy by round, a line for each seed, as an Altair chart."""
        from entrofed.charts.course import accuracy_chart

        return accuracy_chart({self.name: [(folder.experiment().seed, folder.records()) for folder in self.folders]})

    def __str__(self) -> str:
        return "\n".join(f"{key:16} {value}" for key, value in self._lines())

    def _lines(self) -> list[tuple[str, str]]:
        found = [_summary(folder) for folder in self.folders]
        shown = {"accuracy": "accuracy %", "accuracy_last_10": "last 10 %", "macro_f1": "macro F1 %"}
        lines = [("experiment", self.name), ("seeds", ", ".join(map(str, self.seeds)))]
        lines += [("rounds", str(found[0]["rounds"]))]
        known = {key: [100 * summary[key] for summary in found if summary[key] is not None] for key in shown}
        lines += [(shown[key], _spread(values)) for key, values in known.items() if values]
        return [*lines, ("MB sent", f"{mean(s['bytes'] for s in found) / 1e6:,.1f}"), ("folder", str(self.path))]

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{escape(key)}</th><td>{escape(value)}</td></tr>" for key, value in self._lines())
        return f"<table>{rows}</table>{self.chart()._repr_mimebundle_().get('text/html', '')}"


def open_run(path: str | Path) -> Result:
    """The result of a stored run, such as ``runs/mine/seed-0``, or of all seeds of an experiment, ``runs/mine``.

    No code of the run is loaded: everything is read from its records.
    """
    folders = sorted(find_runs([Path(path)]), key=lambda folder: folder.experiment().seed)
    if not folders:
        raise ConfigError(f"{path}: there is no run here (a run folder holds experiment.toml)")
    if len({folder.home for folder in folders}) > 1:
        several = ", ".join(sorted({folder.home.name for folder in folders}))
        raise ConfigError(f"{path}: there are several experiments here ({several}); open one of them")
    return Result(tuple(folders))


def _summary(folder: RunFolder) -> dict[str, Any]:
    found = folder.summary()
    if found is None:
        raise CheckpointError(
            f"{folder.path}: the run is not finished; go on with it: resume = True, or 'entrofed resume'"
        )
    return found


def _spread(values: Sequence[float]) -> str:
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")
