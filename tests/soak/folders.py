"""Run folders under fire: bytes that flip, processes that die, full disks. The bits stay the same, or it is said."""

import errno
import os
import shutil
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from safetensors.numpy import load

from entrofed.data.sources import File
from entrofed.data.verified import check_files
from entrofed.errors import EntrofedError
from entrofed.experiment import checkpoint, client_state, manifest, run_folder
from entrofed.experiment.config import Experiment, parse
from entrofed.experiment.model_file import model_facts
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

METHODS: tuple[dict[str, Any], ...] = (
    {"name": "fedavg", "persist_optimizer": True, "momentum": 0.9},
    {"name": "fedentopt"},
    {"name": "scaffold"},
    {"name": "feddyn"},
    {"name": "fedadam"},
    {"name": "fednova", "momentum": 0.9},
    {"name": "minimax_sim"},
    {"name": "reselection"},
)
NOISED = {1: {"epsilon": 0.5, "simulate": True}}
"""The methods whose label counts are released with noise."""
WRITERS = (checkpoint, client_state, manifest, run_folder)
PUBLISHED = b"sepal,petal,species\n" + b"".join(b"%d.%d,%d.5,%d\n" % (i, i % 7, i % 5, i % 3) for i in range(200))
"""A table as it was published."""


def experiment(number: int, **sections: Any) -> Experiment:
    """A run of three short rounds, with a checkpoint after each."""
    method = {"cohort": 3, **METHODS[number % len(METHODS)]}
    data = {"name": "iris", "clients": 5, "partition": "iid"}
    table = {"rounds": 3, "model": "iris_mlp", "data": data, "method": method, "checkpoint_seconds": 0}
    if (privacy := NOISED.get(number % len(METHODS))) is not None:
        table["privacy"] = privacy
    return parse({**table, "engine": {"backend": "inline"}, **sections})


def result(path: Path) -> Any:
    """All that a run comes to, without the time it took."""
    folder = RunFolder(path)
    records = [{**record.to_json(), "seconds": None} for record in folder.records()]
    last = max(folder.checkpoints.glob("round-*.safetensors")).read_bytes()
    model = {name: (array.dtype.str, array.tobytes()) for name, array in load(last).items()}
    summary = {key: value for key, value in (folder.summary() or {}).items() if key != "seconds"}
    return records, sorted(model.items()), summary


@cache
def unbroken(number: int) -> Path:
    """A run that nobody disturbed."""
    path = Path(mkdtemp(prefix="soak-")) / "iris" / "seed-0"
    run(experiment(number), RunFolder(path))
    return path


def everything(path: Path) -> Any:
    """All that is read of a run."""
    folder = RunFolder(path)
    released = folder.released()
    return (
        None if released is None else (released.spent, released.counts.tolist()),
        folder.experiment(),
        [record.to_json() for record in folder.records()],
        folder.summary(),
        folder.federation_facts(),
        folder.method(),
        model_facts(path / "model.safetensors"),
    )


def mutations(seed: int, number: int = 300) -> dict[str, int]:
    """Flip, cut off or insert bytes in one file after another; what is read must be the same, or an error."""
    rng = np.random.default_rng(seed)
    source = unbroken(seed % len(METHODS))
    right = everything(source)
    found = {"mutations": 0, "silent": 0, "raised": 0}
    place = Path(mkdtemp(prefix="soak-")) / "seed-0"
    shutil.copytree(source, place)
    names = ["experiment.toml", "metrics.jsonl", "summary.json", "federation.json", "method.json"]
    names += ["model.safetensors", "manifest.json", *(["released.json"] if (place / "released.json").exists() else [])]
    try:
        for _ in range(number):
            path = place / names[int(rng.integers(len(names)))]
            raw = path.read_bytes()
            path.write_bytes(_mutated(raw, rng))
            found["mutations"] += 1
            try:
                if everything(place) != right:
                    found["silent"] += 1
                    found[f"silent in {path.name}"] = found.get(f"silent in {path.name}", 0) + 1
            except EntrofedError:
                pass
            except Exception:
                found["raised"] += 1
            path.write_bytes(raw)
        for _ in range(2):  # and files that a run goes on from
            some = sorted(path for path in place.rglob("*") if path.is_file())
            path = some[int(rng.integers(len(some)))]
            raw = path.read_bytes()
            path.write_bytes(_mutated(raw, rng))
            found["mutations"] += 1
            try:
                run(experiment(seed % len(METHODS)), RunFolder(place), resume=True)
                if result(place) != result(source):
                    found["silent"] += 1
                    key = f"silent in {path.relative_to(place).parts[0]} of a resumed run"
                    found[key] = found.get(key, 0) + 1
            except EntrofedError:
                pass
            except Exception:
                found["raised"] += 1
            shutil.rmtree(place)
            shutil.copytree(source, place)
    finally:
        shutil.rmtree(place.parent)
    return found


def datasets(seed: int, number: int = 200) -> dict[str, int]:
    """Damage a published file; it is never taken for the right one, and the right one always is."""
    rng = np.random.default_rng([seed, 2])
    found = {"mutations": 0, "silent": 0, "raised": 0}
    place = Path(mkdtemp(prefix="soak-"))
    before, os.environ["XDG_CACHE_HOME"] = os.environ.get("XDG_CACHE_HOME"), str(place / "cache")
    file = File("table.csv", len(PUBLISHED), sha256(PUBLISHED).hexdigest())
    path = place / file.path
    try:
        for _ in range(number):
            path.write_bytes(PUBLISHED)
            check_files("table", [file], place)
            path.write_bytes(_mutated(PUBLISHED, rng))
            found["mutations"] += 1
            try:
                check_files("table", [file], place)
                found["silent"] += 1
                found["silent in a dataset"] = found.get("silent in a dataset", 0) + 1
            except EntrofedError:
                pass
            except Exception:
                found["raised"] += 1
    finally:
        del os.environ["XDG_CACHE_HOME"]
        if before is not None:
            os.environ["XDG_CACHE_HOME"] = before
        shutil.rmtree(place)
    return found


def _mutated(raw: bytes, rng: np.random.Generator) -> bytes:
    changed, kind = bytearray(raw), int(rng.integers(5))
    at = int(rng.integers(max(len(raw), 1)))
    if kind == 0:
        return bytes(changed[:at])
    if kind == 1:
        changed.insert(at, int(rng.integers(256)))
    elif changed:
        changed[at] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def full_disks(seed: int) -> dict[str, int]:
    """Some write fails for want of room; once there is room again, the run goes on with the same bits."""
    rng, number = np.random.default_rng(seed), seed % len(METHODS)
    found = {"full disks": 0, "different": 0, "failed": 0}
    place = Path(mkdtemp(prefix="soak-"))
    folder, left = RunFolder(place / "iris" / "seed-0"), int(rng.integers(40))
    whole = checkpoint.write_whole

    def failing(path: Path, content: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        whole(path, content)

    try:
        for module in WRITERS:
            module.write_whole = failing  # type: ignore[attr-defined]
        try:
            run(experiment(number), folder)
        except OSError:
            found["full disks"] += 1
        finally:
            for module in WRITERS:
                module.write_whole = whole  # type: ignore[attr-defined]
        try:
            run(experiment(number), folder, resume=True)
            found["different"] += result(folder.path) != result(unbroken(number))
        except Exception:
            found["failed"] += 1
    finally:
        shutil.rmtree(place)
    return found


def schedules(seed: int) -> dict[str, int]:
    """A drawn schedule of faults, with a server or on a graph: every round is recorded, and no model is ruined."""
    rng = np.random.default_rng(seed)
    shares = rng.choice([0.0, 0.3, 0.9], 5)
    names = ("dropout", "stragglers", "joining", "leaving", "liars")
    faults = {**dict(zip(names, shares.tolist(), strict=True)), "claim": str(rng.choice(["rarest", "uniform"]))}
    sections: dict[str, Any] = {"faults": faults}
    if rng.random() < 0.5:
        sections["topology"] = {"kind": str(rng.choice(["ring", "full"])), "up": 0.5, "message_loss": 0.3}
    method = {"cohort": 3, "max_skipped": 99, "epochs": 2} if "topology" not in sections else {"max_skipped": 99}
    found = {"fault rounds": 0, "nonfinite": 0, "failed": 0}
    place = Path(mkdtemp(prefix="soak-"))
    try:
        run(experiment(0, method=method, **sections), RunFolder(place / "a"))
        records = RunFolder(place / "a").records()
        found["fault rounds"] += len(records)
        found["nonfinite"] += any(record.test is None or record.test.loss is None for record in records)
    except Exception:
        found["failed"] += 1
    finally:
        shutil.rmtree(place)
    return found
