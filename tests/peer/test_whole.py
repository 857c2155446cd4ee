"""Several peers' folders as one run: what the simulation would have recorded."""

import numpy as np
import pytest
from tests.peer.trial import experiment, simulated, together, trial

from entrofed.core.topologies import build_graph
from entrofed.experiment.run_folder import RunFolder, find_runs
from entrofed.peer.sketch import SUMS, read, sketch, write
from entrofed.peer.whole import PeerRuns, whole_runs
from entrofed.report import write_report


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    chosen = experiment(3, 4, {"name": "fedavg", "weigher": "label_entropy"}, topology={"message_loss": 0.3})
    paths = trial(folder / "trial", chosen)
    together(paths)
    return folder, chosen, paths


def test_the_whole_is_what_the_simulation_records(played):
    folder, chosen, _paths = played
    (whole,) = whole_runs(find_runs([folder / "trial"]))
    records, models, _ = simulated(chosen, folder / "simulation")
    for ours, theirs, row in zip(whole.records(), records, models, strict=True):
        assert ours.peers == theirs.peers
        assert ours.cohort == theirs.cohort
        assert ours.test.accuracy == pytest.approx(theirs.test.accuracy)
        assert ours.spectral_gap == pytest.approx(theirs.spectral_gap)
        assert ours.consensus == pytest.approx(theirs.consensus, rel=1e-5)  # the model is small: kept as it is
        assert ours.train_loss == pytest.approx(theirs.train_loss)
        assert len(row) == 4
    assert whole.summary()["accuracy"] == pytest.approx(records[-1].test.accuracy)
    counts = np.array(whole.federation_facts()["label_counts"])
    assert (counts.sum(axis=1) > 0).all()


def test_bytes_that_were_sent_are_models_and_little_else(played):
    folder, chosen, paths = played
    whole = PeerRuns.of([RunFolder(path / "run") for path in paths])
    records, _, _ = simulated(chosen, folder / "again")
    sent, nominal = (sum(record.bytes_up for record in found) for found in (whole.records(), records))
    got = sum(record.bytes_down for path in paths for record in RunFolder(path / "run").records())
    edges = 2 * build_graph("ring", 4, np.random.default_rng(0)).number_of_edges()
    assert nominal < sent < nominal + 3 * edges * 2_000
    assert got == pytest.approx(sent, rel=0.2)  # the last answers may be counted after the last record


def test_one_page_of_all(played):
    folder, _chosen, paths = played
    write_report([RunFolder(path / "run") for path in paths], folder / "page.html")
    page = (folder / "page.html").read_text()
    for words in ("Who talks to whom", "Distance to consensus", "Who listens to whom", "Accuracy of each peer"):
        assert words in page
    assert "4 peers" in page


def test_one_peer_alone_is_a_run_as_any_other(played):
    _folder, _chosen, paths = played
    run = RunFolder(paths[0] / "run")
    assert whole_runs([run]) == [run]


def test_sketches_keep_distances(tmp_path):
    rng = np.random.default_rng(0)
    models = rng.normal(size=(6, 50_000)).astype(np.float32)
    sketches = [sketch(model, 7) for model in models]
    true = [np.linalg.norm(models[0] - model) for model in models[1:]]
    found = [np.linalg.norm(sketches[0].astype(np.float64) - one) for one in sketches[1:]]
    np.testing.assert_allclose(found, true, rtol=0.1)
    path = tmp_path / "sketches.f32"
    write(path, 0, sketches[0])
    write(path, 2, sketches[2])
    write(path, 0, sketches[1])
    rows = read(path)
    assert rows.shape == (3, SUMS)
    np.testing.assert_array_equal(rows[[0, 2]], [sketches[1], sketches[2]])
    assert np.isnan(rows[1]).all()
