"""What several test files share."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 (it has a BLAS of its own)
import torch
from hypothesis import settings
from threadpoolctl import threadpool_limits

from entrofed.backends.base import Workload
from entrofed.backends.inline import InlineBackend
from entrofed.backends.processes import ProcessBackend
from entrofed.core.params import Layout, Params
from entrofed.core.seeds import torch_stream
from entrofed.core.types import Training
from entrofed.data.federation import Federation
from entrofed.experiment.build import federate
from entrofed.experiment.config import parse
from entrofed.models.networks import build

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what they start in the background ignore it
settings.register_profile("patient", deadline=None, max_examples=50)  # a busy machine is no failure
settings.load_profile("patient")
# One thread each, or those of two tests at a time wait for each other; processes started here have all.
torch.set_num_threads(1)
threadpool_limits(1, "blas")


@pytest.fixture(autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was released in one test is not known in another, nor to the user."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / uuid4().hex))


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_disks() -> Iterator[None]:
    """Flushing protects from a loss of power, which no test brings about, and took most of the time of short runs.

    That everything is flushed, and when, is in ``test_files.py``.
    """
    flush = os.fsync
    os.fsync = lambda handle: None
    yield
    os.fsync = flush


@dataclass(frozen=True)
class Bench:
    """A model for the digits, its layout, and its first parameters."""

    build: Callable[[], torch.nn.Module]
    layout: Layout
    params: Params


@pytest.fixture(scope="session")
def digits() -> Federation:
    """Digits dealt to eight skewed clients."""
    experiment = parse({"data": {"name": "digits", "partition": "dirichlet_balanced", "clients": 8, "alpha": 0.3}})
    return federate(experiment.data, 0)


@pytest.fixture
def make_bench() -> Callable[[str], Bench]:
    def make(name: str) -> Bench:
        builder = partial(build, name, (1, 8, 8), 10)
        with torch_stream(0, "init"):
            model = builder()
        layout = Layout.of(model)
        return Bench(builder, layout, layout.read(model))

    return make


@pytest.fixture
def bench(make_bench: Callable[[str], Bench]) -> Bench:
    return make_bench("digits_mlp")


@pytest.fixture
def training() -> Training:
    return Training(
        epochs=2,
        batch_size=16,
        optimizer="sgd",
        lr=0.05,
        momentum=0.9,
        weight_decay=1e-3,
        persist_optimizer=False,
        augment=(),
    )


@pytest.fixture(scope="session")
def two_workers() -> Iterator[ProcessBackend]:
    backend = ProcessBackend(2)
    yield backend
    backend.close()


@pytest.fixture
def inline(digits: Federation, bench: Bench) -> InlineBackend:
    backend = InlineBackend()
    backend.open(Workload(digits, bench.build, bench.layout))
    return backend


@pytest.fixture
def same() -> Callable[[Params, Params], bool]:
    """Equal bit for bit."""
    return lambda a, b: a.values.tobytes() == b.values.tobytes() and np.array_equal(a.counters, b.counters)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium; tests that need one are skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = os.environ.get("ENTROFED_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed and ENTROFED_CHROMIUM is not set")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()
