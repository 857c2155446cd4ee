"""Tasks on a Ray cluster: the same bits as here, whatever dies."""

import os
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from entrofed.backends.inline import InlineBackend
from entrofed.experiment.build import prepare
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.client_state import ClientStateStore
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

ray = pytest.importorskip("ray", reason="needs the extra ray")
from ray.cluster_utils import Cluster  # noqa: E402

from entrofed.backends.ray import RayBackend, RemoteParams  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
    pytest.mark.xdist_group("ray"),  # one cluster at a time
]


@pytest.fixture(scope="module")
def started():
    """A cluster of one node, quick to notice that another is gone."""
    quickly = {
        "health_check_initial_delay_ms": 500,
        "health_check_period_ms": 500,
        "health_check_timeout_ms": 1000,
        "health_check_failure_threshold": 4,
    }
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": quickly})
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def head(started):
    """The cluster, which this process belongs to."""
    ray.init(address=started.address, log_to_driver=False, logging_level="ERROR")
    yield started
    ray.shutdown()


@pytest.fixture
def cluster(head):
    """Two nodes on this machine; the second can be killed."""
    second = head.add_node(num_cpus=1)
    yield head, second
    if second in head.worker_nodes:
        head.remove_node(second)


def experiment(method, rounds=4, **sections):
    return parse(
        {
            "rounds": rounds,
            "seed": 5,
            "checkpoint_seconds": 0,
            "data": {
                "name": "digits",
                "partition": "dirichlet_balanced",
                "clients": 6,
                "alpha": 0.5,
                "validation": 0.05,
            },
            "method": {"name": method, "cohort": 3, "lr": 0.1, "momentum": 0.5},
            **sections,
        }
    )


RING = {"topology": {"kind": "ring"}}


def outcome(folder, chosen):
    store = ClientStateStore(folder.path / "memory", 0)
    state, problems = Checkpoints(folder.checkpoints, prepare(chosen).layout, store).last()
    assert not problems
    return state, [replace(record, seconds={}) for record in folder.records()]


def check_same(one, two, chosen):
    (state, records), (other, again) = outcome(one, chosen), outcome(two, chosen)
    assert records == again
    np.testing.assert_array_equal(state.params.values, other.params.values)
    for name, array in state.server.items():
        np.testing.assert_array_equal(array, other.server[name])


def check_on(backend, chosen, folder, **options):
    """Played here and on the backend, it is the same."""
    here, there = RunFolder(folder / "here"), RunFolder(folder / "there")
    run(chosen, here, backend=InlineBackend())
    run(chosen, there, backend=backend, **options)
    check_same(here, there, chosen)


@pytest.mark.usefixtures("started")
def test_a_cluster_of_its_own(tmp_path):
    """Without an address, Ray is started for the run and stopped after it, whatever other cluster is on the machine."""
    assert "RAY_ADDRESS" not in os.environ
    chosen = experiment("fedavg", rounds=1, engine={"backend": "ray", "workers": 1})
    run(chosen, RunFolder(tmp_path / "there"))
    run(chosen, RunFolder(tmp_path / "here"), backend=InlineBackend())
    assert not ray.is_initialized()
    check_same(RunFolder(tmp_path / "here"), RunFolder(tmp_path / "there"), chosen)


def test_the_same_bits_on_a_cluster_of_two_nodes(cluster, tmp_path):
    backend = RayBackend(2)
    cases = [("fedavg", {}), ("scaffold", {}), ("inv_entropy", {}), ("fedep", RING), ("moon", RING), ("scaffold", RING)]
    try:
        for number, (method, sections) in enumerate(cases):
            check_on(backend, experiment(method, **sections), tmp_path / str(number))
    finally:
        backend.close()


def test_models_of_peers_stay_in_the_object_store(cluster, tmp_path, monkeypatch):
    """Between the peers nothing comes to the driver: with no checkpoint in between, no model is fetched."""
    backend, fetched = RayBackend(2), []
    original = RemoteParams.__getattribute__

    def watched(self, name):
        if name in ("values", "counters"):
            fetched.append(name)
        return original(self, name)

    monkeypatch.setattr(RemoteParams, "__getattribute__", watched)
    seen = []
    chosen = experiment("fedep", **RING).model_copy(update={"checkpoint_seconds": 3600.0})
    try:
        run(chosen, RunFolder(tmp_path), backend=backend, observer=lambda record: seen.append(len(fetched)))
    finally:
        backend.close()
    assert seen == [0, 0, 0, 0]
    assert fetched  # for the checkpoint at the end


@pytest.mark.parametrize("sections", [{}, RING], ids=["central", "peers"])
def test_a_node_dies_in_mid_run(cluster, tmp_path, sections):
    nodes, second = cluster
    backend = RayBackend(2)

    def observer(record):
        if record.round == 2 and second in nodes.worker_nodes:
            nodes.remove_node(second, allow_graceful=False)

    try:
        check_on(backend, experiment("fedep", rounds=6, **sections), tmp_path, observer=observer)
    finally:
        backend.close()


def test_a_killed_actor_is_replaced(cluster, tmp_path):
    backend = RayBackend(2)

    def observer(record):
        if record.round == 1:
            ray.kill(backend._actors[0])
            time.sleep(0.5)

    try:
        check_on(backend, experiment("fedavg"), tmp_path, observer=observer)
    finally:
        backend.close()


def test_an_actor_that_is_gone_before_the_run_is_replaced(cluster, tmp_path):
    backend = RayBackend(2)
    try:
        ray.kill(backend._actors[1])
        check_on(backend, experiment("fedavg", rounds=2), tmp_path)
    finally:
        backend.close()


def test_a_users_own_code_gets_to_actors(head, tmp_path):
    """A file that an experiment refers to, and functions that no module has."""
    (tmp_path / "nets.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Sequential):\n"
        "    def __init__(self, shape, classes):\n"
        "        super().__init__(nn.Flatten(), nn.LazyLinear(classes))\n"
        "class Smoothed:\n"
        "    def loss(self, model, x, y, given):\n"
        "        return nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)\n"
    )
    code = str(tmp_path / "nets.py")
    chosen = experiment("fedavg", model=f"{code}:Net")
    chosen = parse({**chosen.model_dump(exclude_unset=True), "method": {"cohort": 3, "objective": f"{code}:Smoothed"}})
    backend = RayBackend(1)
    try:
        check_on(backend, chosen, tmp_path)
    finally:
        backend.close()


def test_an_array_goes_to_the_object_store_once():
    """As long as one call of ``run`` after the other needs it: a model is evaluated, and then trained from."""
    stored = []
    backend = object.__new__(RayBackend)
    backend._ray, backend._stored = SimpleNamespace(put=lambda leaf: stored.append(leaf) or len(stored)), {}
    model, other = np.ones(2), np.ones(2)
    put = backend._put()
    assert [put(model), put(other), put(model)] == [1, 2, 1]
    put = backend._put()
    assert put(model) == 1
    put = backend._put()
    assert [put(model), put(other)] == [1, 3]  # nobody kept the other
