"""``entrofed doctor``: does this machine have what a run needs?"""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import distributions, requires
from pathlib import Path

import numpy as np
from rich.markup import escape

from entrofed.backends.shared import SharedArrays
from entrofed.client.device import devices
from entrofed.data.catalog import CATALOG, data_directory
from entrofed.experiment.build import compiler
from entrofed.experiment.run_folder import environment
from entrofed.files import write_whole


def _versions(_: Path) -> str:
    found = environment()
    return f"Python {found['python']}, torch {found['packages']['torch']} ({found['processor']})"


def _workers(_: Path) -> str:
    shared = SharedArrays.create([np.zeros(1 << 20, np.uint8)])
    shared.close()
    return f"{os.cpu_count()} cores, shared memory works"


def _devices(_: Path) -> str:
    return "; ".join(f"{name} ({words})" for name, words in devices().items())


def _storage(_: Path) -> str:
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        write_whole(Path(folder) / "probe", b"x" * (1 << 20))
    took, free = time.perf_counter() - began, shutil.disk_usage(".").free / 1e9
    return f"this folder can be written ({took * 1e3:.0f} ms per checkpoint of 1 MB, {free:.0f} GB free)"


def _compiler(_: Path) -> str:
    name, there = compiler()
    return f"{name}: engine.compile can be used" if there else f"no {name}: engine.compile cannot be used"


def _extras(_: Path) -> str:
    needs: dict[str, list[str]] = {}
    for line in requires("entrofed") or ():
        package, extra = re.split(r"[^\w.-]", line, maxsplit=1)[0], re.search(r"extra == ['\"](\w+)['\"]", line)
        if extra is not None and extra[1] != "dev":
            needs.setdefault(extra[1], []).append(package)
    installed = {found.name.lower().replace("_", "-") for found in distributions()}
    here = [extra for extra, packages in needs.items() if installed.issuperset(packages)]
    others = [extra for extra in needs if extra not in here]
    words = f"{', '.join(here) or 'none'} installed"
    return words + (f"; pip install 'entrofed[NAME]' gets others: {', '.join(others)}" if others else "")


def _data(root: Path) -> str:
    here = [name for name, e in CATALOG.items() if e.here(root)]
    return f"{root}: {', '.join(here)}; 'entrofed data fetch NAME' gets others"


CHECKS: dict[str, Callable[[Path], str]] = {
    "versions": _versions,
    "workers": _workers,
    "devices": _devices,
    "storage": _storage,
    "compiler": _compiler,
    "extras": _extras,
    "data": _data,
}


@dataclass(frozen=True)
class Finding:
    """What a check found."""

    check: str
    ok: bool
    words: str


def examine(directory: Path | None) -> Iterator[Finding]:
    """Run every check."""
    for name, check in CHECKS.items():
        try:
            yield Finding(name, True, check(data_directory(directory)))
        except Exception as error:
            yield Finding(name, False, str(error))


def words_of(finding: Finding) -> str:
    """A finding for a terminal."""
    mark = "[green]ok[/green]      " if finding.ok else "[red]failed[/red]  "
    return f"{mark}{finding.check}: {escape(finding.words)}"
