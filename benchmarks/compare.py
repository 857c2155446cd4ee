"""What a user would pick instead, side by side: one table of ratios, and how our rounds grow.

    python benchmarks/compare.py [--repeats 5] [--cases toy mlp] [--sides ours plain] [--write docs/benchmarks.md]

Every side does the same work (``sides/cases.py``) in a process of its own; sides alternate, and the best of the repeats
counts: the median round, the whole time from the start of the process to its end, and the peak of memory (the
proportional set size of the process and all that it started). Ratios are to ``ours``: above 1, slower than we are. A
side that is not installed is skipped with a word. Growth: the exponent that fits round times at several sizes of one
quantity, all else equal; none should be above 1.1.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from growth import exponents

HERE = Path(__file__).parent / "sides"
CASES = ("lenet5", "mlp", "toy", "clients-10k", "clients-100k", "peers-100")
BEGIN, END = "<!-- compare: begin -->", "<!-- compare: end -->"


@dataclass(frozen=True)
class Side:
    """A program that does the work, and the package that it needs."""

    file: str
    needs: str
    arguments: tuple[str, ...] = ()


SIDES = {
    "ours": Side("ours.py", "entrofed", ("auto",)),
    "ours, inline": Side("ours.py", "entrofed", ("inline",)),
    "ours, processes": Side("ours.py", "entrofed", ("processes",)),
    "plain loop": Side("plain.py", "torch"),
    "Flower": Side("flower_side.py", "flwr"),
    "JAX, vmap": Side("jax_vmap.py", "jax"),
    "pfl": Side("pfl_side.py", "pfl"),
}


@dataclass(frozen=True)
class Found:
    """Of one run: seconds, and bytes."""

    round: float
    total: float
    memory: float


def _tree(process: int) -> list[int]:
    found = [process]
    for one in found:
        try:
            found += [int(child) for child in Path(f"/proc/{one}/task/{one}/children").read_text().split()]
        except OSError:
            continue
    return found


def _memory(process: int) -> int:
    """The proportional set size of a process and all below it, bytes."""
    total = 0
    for one in _tree(process):
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def play(side: Side, case: str) -> Found | str:
    """Run a side once; a word if it does not do the case."""
    began = time.perf_counter()
    environment = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    process = subprocess.Popen(
        [sys.executable, str(HERE / side.file), case, *side.arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    peak, over = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.2):
            peak = max(peak, _memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    said, complained = process.communicate()
    over.set()
    watcher.join()
    total = time.perf_counter() - began
    if process.returncode:
        return (complained.strip().splitlines() or ["failed"])[-1]
    rounds = json.loads(said.strip().splitlines()[-1])["rounds"]
    return Found(median(rounds), total, peak)


def best(runs: list[Found]) -> Found:
    """The least of each."""
    return Found(min(run.round for run in runs), min(run.total for run in runs), min(run.memory for run in runs))


def measured(cases: list[str], sides: list[str], repeats: int) -> dict[str, dict[str, Found | str]]:
    """By case and side; sides alternate."""
    table: dict[str, dict[str, Found | str]] = {}
    for case in cases:
        runs: dict[str, list[Found]] = {name: [] for name in sides}
        words: dict[str, str] = {}
        for _ in range(repeats):
            for name in sides:
                if name in words:
                    continue
                found = play(SIDES[name], case)
                if isinstance(found, str):
                    words[name] = found
                else:
                    runs[name].append(found)
        table[case] = {name: words.get(name) or best(runs[name]) for name in sides}
        print(f"{case}: done", file=sys.stderr, flush=True)
    return table


def _cell(found: Found | str, ours: Found | str, *, first: bool) -> str:
    if isinstance(found, str) or isinstance(ours, str):
        return "–"
    if first:
        return f"{1000 * found.round:.1f} ms / {found.total:.1f} s / {found.memory / 1e6:.0f} MB"
    ratios = (found.round / ours.round, found.total / ours.total, found.memory / max(ours.memory, 1))
    return " / ".join(f"{ratio:.2f}" for ratio in ratios)


def table_of(found: dict[str, dict[str, Found | str]], skipped: dict[str, str]) -> str:
    """In Markdown: sides down, cases across."""
    cases = list(found)
    lines = [f"| round / total / memory | {' | '.join(cases)} |", f"|---|{'---|' * len(cases)}"]
    for name in next(iter(found.values())):
        cells = [_cell(found[case][name], found[case]["ours"], first=name == "ours") for case in cases]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", *(f"{name}: {why}; skipped." for name, why in skipped.items())]
    return "\n".join(lines).rstrip() + "\n"


def placed(page: str, text: str) -> str:
    """A page with the text in the place that is marked for it."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"the page has no place for the table: it is between {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{text}{END}{after}"


def machine() -> str:
    """Where it was measured, and with which versions."""
    processor = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    versions = []
    for name in ("entrofed", "torch", "numpy", "flwr", "jax", "pfl"):
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}; {', '.join(versions)}."


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--sides", nargs="+", default=list(SIDES), choices=list(SIDES))
    parser.add_argument("--no-growth", action="store_true")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    sides = ["ours", *(name for name in options.sides if name != "ours")]
    skipped = {name: "not installed" for name in sides if importlib.util.find_spec(SIDES[name].needs) is None}
    there = [name for name in sides if name not in skipped]
    text = table_of(measured(options.cases, there, options.repeats), skipped)
    if not options.no_growth:
        text += "\n" + exponents(options.repeats)
    text = f"{machine()} Best of {options.repeats}, sides alternating; ratios to ours.\n\n{text}"
    print(text)
    if options.write is not None:
        options.write.write_text(placed(options.write.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main()
