"""What a run has left in its folder, as plain values: to read it takes no model, no part of a method, and no torch."""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entrofed.core.plugins import PART_KINDS
from entrofed.core.records import RoundRecord
from entrofed.errors import CheckpointError, ConfigError, DataError
from entrofed.experiment.manifest import is_listed, read_listed, seal_holds

REPLACED = ".replaced"
"""Where the run lies that is being replaced."""


@dataclass(frozen=True)
class Heading:
    """What was run."""

    data: str
    partition: str
    seed: int
    model: str
    rounds: int
    method: str
    parts: dict[str, Any]
    """The specification of each part that the experiment file names, by its kind."""


@dataclass(frozen=True)
class StoredRun:
    """Reads the files of one run."""

    path: Path

    @property
    def label(self) -> str:
        """How the run is called in tables."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def home(self) -> Path:
        """The folder of its experiment, which holds a run for each seed; a run on Flower elsewhere is alone."""
        alone = (self.path / "strategy.json").exists() and not self.path.name.startswith("seed-")
        return self.path if alone else self.path.parent

    def exists(self) -> bool:
        """Whether a run was started here."""
        return (self.path / "experiment.toml").exists()

    def settings(self) -> dict[str, Any]:
        """The resolved configuration as it is stored; the parts that it names need not be installed here."""
        path = self.path / "experiment.toml"
        try:
            return tomllib.loads(read_listed(path).decode())
        except FileNotFoundError:
            raise CheckpointError(f"{self.path}: not a run (there is no experiment.toml in it)") from None
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{path}: not readable as TOML: {error}") from None

    def heading(self) -> Heading:
        """What was run, in a few words."""
        table = self.settings()
        try:
            data, method = table["data"], table["method"]
            return Heading(
                data=str(data["name"]),
                partition=str(data["partition"]),
                seed=int(table["seed"]),
                model=str(table["model"]),
                rounds=int(table["rounds"]),
                method=str(method["name"]),
                parts={kind: method[kind] for kind in PART_KINDS if kind in method},
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.path / 'experiment.toml'}: not the configuration of a run: {error}") from None

    def method(self) -> dict[str, Any] | None:
        """The parts of the method with their hyperparameters, and what leaves a client; None of older runs."""
        return self._json("method.json")

    def _json(self, name: str) -> dict[str, Any] | None:
        try:
            return dict(json.loads(read_listed(self.path / name)))
        except (FileNotFoundError, ValueError, TypeError, RecursionError):
            return None

    def records(self) -> list[RoundRecord]:
        """The rounds recorded so far; a half-written last line (a run that was killed) is left out."""
        path = self.path / "metrics.jsonl"
        records: list[RoundRecord] = []
        for number, line in enumerate(self._metrics().split(b"\n")[:-1]):
            try:
                words = line.decode()
                if not seal_holds(words):
                    raise DataError("its digest is another")
                records.append(RoundRecord.from_json(json.loads(words)))
            except (ValueError, DataError, RecursionError) as error:
                raise CheckpointError(f"{path}: line {number + 1} is damaged: {error}") from None
        return records

    def _metrics(self) -> bytes:
        """The file of records; nothing before the first round."""
        path = self.path / "metrics.jsonl"
        try:
            return read_listed(path)
        except FileNotFoundError:
            if is_listed(path):
                raise CheckpointError(f"{path}: is missing, though the run was finished; bring it back") from None
            return b""

    def summary(self) -> dict[str, Any] | None:
        """Final figures, if the run is finished."""
        try:
            found: dict[str, Any] = json.loads(read_listed(self.path / "summary.json"))
            if not isinstance(found, dict):
                raise TypeError
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, RecursionError):
            raise CheckpointError(
                f"{self.path / 'summary.json'}: not readable; 'entrofed resume' writes it anew"
            ) from None
        return found

    def outcome(self) -> tuple[int, float | None, float | None]:
        """Rounds played, and the last and the best accuracy on the test set.

        Of a finished run the summary says so, and no record is read where the manifest vouches for all of them.
        """
        summary = self.summary()
        if summary is not None and is_listed(self.path / "metrics.jsonl"):
            self._metrics()
            return summary["rounds"], summary["accuracy"], summary["accuracy_best"]
        records = self.records()
        tests = [record.test.accuracy for record in records if record.test is not None]
        return len(records), tests[-1] if tests else None, max(tests, default=None)

    def federation_facts(self) -> dict[str, Any] | None:
        """What :meth:`keep_federation` stored."""
        return self._json("federation.json")


def find_stored(paths: list[Path]) -> list[StoredRun]:
    """The runs at or below the given folders."""
    found: list[StoredRun] = []
    for path in paths:
        if not path.is_dir():
            raise ConfigError(f"{path}: there is no such folder of runs")
        below = sorted(file.parent for file in path.rglob("experiment.toml") if REPLACED not in file.parts)
        found += [StoredRun(folder) for folder in below]
    return found
