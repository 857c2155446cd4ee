"""The folder of one run (one experiment, one seed) and what lies in it.

::

    runs/NAME/seed-0/
      experiment.toml      the resolved configuration; can be run again as it is
      environment.json     versions and machine
      federation.json      who holds how many examples of which class
      metrics.jsonl        one line a round, while it runs
      metrics.parquet      the same as a table, at the end
      summary.json         final figures, at the end
      released.json        noised label counts as they left the clients, and what that cost
      log.txt
      checkpoints/         round-000049.safetensors + .json, best.safetensors + .json
      memory/              what clients remember, a file each, named by its SHA-256; checkpoints refer to them
"""

import json
import math
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from entrofed import __version__
from entrofed.data.federation import Federation
from entrofed.errors import CheckpointError, ConfigError
from entrofed.experiment.config import Experiment, read, to_toml
from entrofed.files import sweep, write_whole
from entrofed.privacy.counts import Release

Record = dict[str, Any]


def json_line(record: Record) -> str:
    """A record as one line of JSON; what is not a finite number becomes null.

    >>> json_line({"loss": float("nan"), "clients": [1, 2]}).strip()
    '{"loss": null, "clients": [1, 2]}'
    """
    return json.dumps(_finite(record)) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class RunFolder:
    """Reads and writes the files of one run."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints lie."""
        return self.path / "checkpoints"

    @property
    def label(self) -> str:
        """How the run is called in tables."""
        return f"{self.path.parent.name}/{self.path.name}"

    def exists(self) -> bool:
        """Whether a run was started here."""
        return (self.path / "experiment.toml").exists()

    def start(self, experiment: Experiment) -> None:
        """Write what is known before the first round."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.path / "environment.json", json.dumps(environment(), indent=2) + "\n")
        write_whole(self.path / "experiment.toml", to_toml(experiment))

    def experiment(self) -> Experiment:
        """The resolved configuration."""
        if not self.exists():
            raise CheckpointError(f"{self.path}: not a run (there is no experiment.toml in it)")
        return read(self.path / "experiment.toml")

    def records(self) -> list[Record]:
        """The rounds recorded so far; a half-written last line (a run that was killed) is left out."""
        try:
            lines = (self.path / "metrics.jsonl").read_text(encoding="utf-8").split("\n")
        except FileNotFoundError:
            return []
        records: list[Record] = []
        for number, line in enumerate(lines[:-1]):
            try:
                records.append(json.loads(line))
            except ValueError:
                raise CheckpointError(f"{self.path / 'metrics.jsonl'}: line {number + 1} is damaged") from None
        return records

    def summary(self) -> dict[str, Any] | None:
        """Final figures, if the run is finished."""
        try:
            found: dict[str, Any] = json.loads((self.path / "summary.json").read_text())
        except FileNotFoundError:
            return None
        except ValueError:
            raise CheckpointError(
                f"{self.path / 'summary.json'}: not readable; 'entrofed resume' writes it anew"
            ) from None
        return found

    def keep_federation(self, federation: Federation) -> None:
        """Store who holds how many examples of which class; it explains what a selector did."""
        content = {
            "classes": list(federation.data.classes),
            "participants": federation.participants.tolist(),
            "label_counts": federation.label_counts.tolist(),
        }
        write_whole(self.path / "federation.json", json.dumps(content) + "\n")

    def federation_facts(self) -> dict[str, Any] | None:
        """What :meth:`keep_federation` stored."""
        try:
            found: dict[str, Any] = json.loads((self.path / "federation.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return found

    def keep_release(self, released: Release) -> None:
        """Store label counts at the moment they leave the clients."""
        content = {"spent": released.spent, "counts": released.counts.tolist()}
        write_whole(self.path / "released.json", json.dumps(content) + "\n")

    def released(self) -> Release | None:
        """The label counts that left the clients when the run began."""
        path = self.path / "released.json"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return Release(np.array(content["counts"], np.float64), content["spent"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise CheckpointError(
                f"{path}: not readable; the noised counts are lost. To draw them anew spends the budget again: "
                "start the run anew with --overwrite if that is meant"
            ) from None

    def keep_rounds(self, rounds: int) -> None:
        """Forget the records of rounds that come after the state a run resumes from."""
        records = self.records()
        if [record["round"] for record in records[:rounds]] != list(range(rounds)):
            raise CheckpointError(
                f"{self.path / 'metrics.jsonl'}: the records of rounds 0..{rounds - 1} are not complete, "
                "though the checkpoint is; start the run anew with --overwrite"
            )
        write_whole(self.path / "metrics.jsonl", "".join(json_line(record) for record in records[:rounds]))

    def finish(self, summary: dict[str, Any]) -> None:
        """Write what is known after the last round."""
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(self.records()), sink)
        write_whole(self.path / "metrics.parquet", sink.getvalue().to_pybytes())
        write_whole(self.path / "summary.json", json.dumps(summary, indent=2) + "\n")

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the folder, so that no second process runs in it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("w") as file:
            if os.name == "posix":
                import fcntl

                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    raise ConfigError(f"{self.path}: another process is running here; wait for it or stop it") from None
            sweep(self.path)
            yield


def find_runs(paths: list[Path]) -> list[RunFolder]:
    """The runs at or below the given folders."""
    found: list[RunFolder] = []
    for path in paths:
        if not path.is_dir():
            raise ConfigError(f"{path}: there is no such folder of runs")
        below = sorted(file.parent for file in path.rglob("experiment.toml"))
        found += [RunFolder(folder) for folder in below]
    return found


def environment() -> dict[str, Any]:
    """Versions and machine: what the last bits of a result may depend on."""
    import torch

    packages = ("numpy", "torch", "scikit-learn", "safetensors", "pydantic", "pyarrow")
    return {
        "entrofed": __version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processor": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "packages": {name: version(name) for name in packages},
    }
