"""The folder of one run (one experiment, one seed) and what lies in it.

::

    runs/NAME/seed-0/
      experiment.toml      the resolved configuration; can be run again as it is
      environment.json     versions and machine
      federation.json      who holds how many examples of which class
      method.json          the method's parts, and what leaves a client
      metrics.jsonl        one line per round, while it runs
      metrics.parquet      the same as a table, at the end
      summary.json         final metrics, at the end
      released.json        noised label counts as they left the clients, and what that cost
      log.txt
      manifest.json        the SHA-256 of each of these; every line of metrics.jsonl carries its own
      model.safetensors    the best model so far, for use elsewhere; see :mod:`entrofed.experiment.model_file`
      checkpoints/         round-000049.safetensors + .json
      memory/              what clients keep, a file each, named by its SHA-256; checkpoints refer to them
      tensorboard/, mlflow/, wandb/   the course as it goes on, if the experiment asks for it
"""

import json
import logging
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from entrofed import __version__
from entrofed.core.parts import Method
from entrofed.core.records import RoundRecord
from entrofed.data.federation import Federation
from entrofed.errors import CheckpointError, ConfigError, DataError, EntrofedError
from entrofed.experiment.config import Experiment, read, to_toml
from entrofed.experiment.manifest import list_grown, read_listed, sealed, unlist, write_listed
from entrofed.experiment.stored import REPLACED, StoredRun, find_stored
from entrofed.experiment.toml import flat
from entrofed.files import open_own, sweep, write_whole
from entrofed.privacy.counts import Release
from entrofed.registry import PART_KINDS, describe

T = TypeVar("T")

LOCK = "lock"
"""The file that holds a folder."""


def json_line(record: RoundRecord) -> str:
    """A record as one line of JSON that carries its own digest."""
    return sealed(record.dumps()) + "\n"


@dataclass(frozen=True)
class RunFolder(StoredRun):
    """Reads and writes the files of one run."""

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints lie."""
        return self.path / "checkpoints"

    def check(self, experiment: Experiment, *, resume: bool, overwrite: bool = False) -> None:
        """Raise a ConfigError if a run of this experiment cannot begin, or go on, here."""
        if not self.exists() or overwrite:
            return
        if not resume:
            raise ConfigError(
                f"{self.path}: there is a run already; continue it with resume = True, or replace it with "
                "overwrite = True"
            )
        before, now = flat(self.experiment().decisive()), flat(experiment.decisive())
        faults, schedule = experiment.faults, experiment.method.schedule
        by_rounds = faults.joining or faults.leaving or experiment.method.recipe.by_rounds
        by_rounds = by_rounds or (schedule is not None and schedule.kind == "cosine")
        free = {"data.path", "data.test"}  # files may move: their content is compared, see check_data
        free |= set() if by_rounds else {"rounds"}  # where nothing that happens depends on how many there are
        changed = [key for key in {**before, **now} if before.get(key) != now.get(key) and key not in free]
        if changed:
            raise ConfigError(
                f"{self.path}: the run was started with another configuration; changed: {', '.join(changed)}. "
                "Take another name, or replace the run with overwrite = True"
            )

    def start(self, experiment: Experiment, method: Method) -> None:
        """Write what is known before the first round."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_listed(self.path / "environment.json", json.dumps(environment(), indent=2) + "\n")
        write_listed(self.path / "method.json", json.dumps(method_facts(method), indent=2) + "\n")
        write_listed(self.path / "experiment.toml", to_toml(experiment))

    def experiment(self) -> Experiment:
        """The resolved configuration; it may name parts that are not installed here."""
        if not self.exists():
            raise CheckpointError(f"{self.path}: not a run (there is no experiment.toml in it)")
        read_listed(self.path / "experiment.toml")
        return read(self.path / "experiment.toml", stored=True)

    def check_data(self, federation: Federation) -> None:
        """Raise a DataError if the run was started with other data of the user's own."""
        before = (self.federation_facts() or {}).get("sha256")
        if before is not None and before != federation.digest:
            raise DataError(
                f"{self.path}: {federation.data.name!r} is not the data that the run was started with (the SHA-256 of "
                "what is trained on has changed). Bring it back, take another name, or replace the run with "
                "overwrite = True"
            )

    def keep_federation(self, federation: Federation, *, own: bool) -> None:
        """Store who holds how many examples of which class; it explains what a selector did.

        ``own``: the data is the user's, and its digest is stored, too.
        """
        content = {
            **({"sha256": federation.digest} if own else {}),
            "classes": list(federation.data.classes),
            "participants": federation.participants.tolist(),
            "label_counts": federation.label_counts.tolist(),
        }
        write_listed(self.path / "federation.json", json.dumps(content) + "\n")

    def keep_release(self, released: Release) -> None:
        """Store label counts at the moment they leave the clients."""
        content = {"spent": released.spent, "counts": released.counts.tolist()}
        write_listed(self.path / "released.json", json.dumps(content) + "\n")

    def released(self) -> Release | None:
        """The label counts that left the clients when the run began."""
        path = self.path / "released.json"
        try:
            content = json.loads(read_listed(path))
            return Release(np.array(content["counts"], np.float64), content["spent"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise CheckpointError(
                f"{path}: not readable; the noised counts are lost, and to draw others would spend again: start the "
                "run anew with overwrite = True, which takes those in the ledger"
            ) from None

    def move_aside(self) -> None:
        """Put what lies here into a folder of its own, until a new run has come to its first checkpoint."""
        aside = self.path / REPLACED
        if aside.exists():  # a new run that came to nothing lies over an old one: that is the one to keep
            self._clear()
            return
        aside.mkdir()
        for path in self._content():
            path.rename(aside / path.name)

    def forget_replaced(self) -> None:
        """Delete the run that a new one has replaced."""
        if (self.path / REPLACED).is_dir():
            shutil.rmtree(self.path / REPLACED)

    def _clear(self) -> None:
        for path in self._content():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _content(self) -> list[Path]:
        return [path for path in self.path.iterdir() if path.name not in (REPLACED, LOCK)]

    def start_over(self) -> Path:
        """Put the records aside that no checkpoint covers; returns where they are."""
        number = 1
        while (aside := self.path / f"metrics-{number}.jsonl").exists():
            number += 1
        unlist(self.path / "metrics.jsonl")
        (self.path / "metrics.jsonl").rename(aside)
        return aside

    def keep_rounds(self, rounds: int) -> None:
        """Forget the records of rounds that come after the state a run resumes from."""
        records = self.records()
        if [record.round for record in records[:rounds]] != list(range(rounds)):
            raise CheckpointError(
                f"{self.path / 'metrics.jsonl'}: the records of rounds 0..{rounds - 1} are not complete, "
                "though the checkpoint is; start the run anew with overwrite = True"
            )
        unlist(self.path / "metrics.jsonl")
        write_whole(self.path / "metrics.jsonl", "".join(json_line(record) for record in records[:rounds]))

    def finish(self, summary: dict[str, Any]) -> None:
        """Write what is known after the last round."""
        import pyarrow.parquet

        list_grown(self.path / "metrics.jsonl")
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(_table(self.records()), sink)
        write_listed(self.path / "metrics.parquet", sink.getvalue().to_pybytes())
        write_listed(self.path / "summary.json", json.dumps(summary, indent=2) + "\n")

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the folder, so that no second process runs in it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written to: {error.strerror}; choose another folder") from None
        with open_own(self.path / LOCK) as file:
            if os.name == "posix":
                import fcntl

                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    raise ConfigError(f"{self.path}: another process is running here; wait for it or stop it") from None
            sweep(self.path)
            yield

    def is_held(self) -> bool:
        """Whether a process runs here, as far as the system can tell."""
        if os.name != "posix":
            return True
        import fcntl

        try:
            with (self.path / LOCK).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False


ONCE = ("once", "at_end")
POOLED = "its label counts, in a secure sum with all clients'"


def method_facts(method: Method) -> dict[str, Any]:
    """A method for people to read: its parts, and what leaves a client, once and with each round."""
    rule = method.server.client
    each = ["the trained model and its number of examples"]
    each += [fact.reveals for fact in method.facts if fact.when not in ONCE]
    once = [fact.reveals for fact in method.facts if fact.when in ONCE]
    once = [POOLED, *once] if method.pools else once
    each += [rule.sends] if rule is not None and rule.sends else []
    return {
        "parts": {kind: json.loads(json.dumps(describe(getattr(method, kind)), default=str)) for kind in PART_KINDS},
        "reveals": {"once": once, "each_round": each},
    }


def _table(records: list[RoundRecord]) -> Any:
    """Records as a table; what parts say of their choices becomes text where it has no common type."""
    import pyarrow

    rows = [record.to_json() for record in records]
    try:
        return pyarrow.Table.from_pylist(rows)
    except pyarrow.ArrowException:
        for row in rows:
            row["reasons"] = json.dumps(row["reasons"])
            for entry in row["clients"]:
                entry["origin"] = json.dumps(entry.get("origin", {}))
            for peer in row.get("peers", ()):
                peer["origins"] = json.dumps(peer.get("origins", []))
        return pyarrow.Table.from_pylist(rows)


def readable(folders: Iterable[RunFolder], read: Callable[[RunFolder], T]) -> list[tuple[RunFolder, T]]:
    """What is read of each run; of those that are damaged nothing but a word about it. If all are, the first error."""
    found: list[tuple[RunFolder, T]] = []
    damaged: list[EntrofedError] = []
    for folder in folders:
        try:
            found.append((folder, read(folder)))
        except (CheckpointError, ConfigError) as error:
            damaged.append(error)
            logging.getLogger("entrofed").warning("%s is left out: %s", folder.label, error)
    if damaged and not found:
        raise damaged[0]
    return found


def find_runs(paths: list[Path]) -> list[RunFolder]:
    """The runs at or below the given folders."""
    return [RunFolder(run.path) for run in find_stored(paths)]


def environment() -> dict[str, Any]:
    """Versions and machine: what the last bits of a result may depend on."""
    import torch

    return {
        "entrofed": __version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processor": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "packages": _versions(),
    }


@cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("numpy", "torch", "scikit-learn", "safetensors", "pydantic", "pyarrow")}
