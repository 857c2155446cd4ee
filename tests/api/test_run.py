"""Running from Python: own data, own network, own parts; equal to the same run from a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import entrofed as ef
from entrofed.data.catalog import load
from entrofed.experiment.build import prepare
from entrofed.experiment.model_file import model_facts

FAST: dict[str, Any] = {"rounds": 3, "cohort": 3, "lr": 0.1, "backend": "inline", "progress": False}


@pytest.fixture(scope="module")
def federation() -> ef.Federation:
    data = load("digits")
    x, y = data.train_x[:400], data.train_y[:400]
    return ef.Federation.partition(x, y, "dirichlet_balanced", clients=6, alpha=0.3, test=(data.test_x, data.test_y))


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def test_same_bits_from_a_file_from_python_and_from_the_catalogue(tmp_path: Path) -> None:
    data = load("digits")
    train_x, test_x = (x.astype(np.float32) / 16 for x in (data.train_x, data.test_x))
    np.savez(tmp_path / "train.npz", x=train_x, y=data.train_y)
    np.savez(tmp_path / "test.npz", x=test_x, y=data.test_y)
    dealt = 'partition = "dirichlet_balanced"\nclients = 8\nalpha = 0.3\nnormalize = "unit"\n'
    shared = 'rounds = 2\nmodel = "digits_mlp"\n[method]\ncohort = 3\nlr = 0.1\n[engine]\nbackend = "inline"\n[data]\n'
    (tmp_path / "catalogue.toml").write_text(shared + 'name = "digits"\n' + dealt)
    (tmp_path / "file.toml").write_text(shared + 'path = "train.npz"\nlabel = "y"\ntest = "test.npz"\n' + dealt)
    federation = ef.Federation.partition(
        train_x,
        data.train_y,
        "dirichlet_balanced",
        clients=8,
        alpha=0.3,
        test=(test_x, data.test_y),
        normalize="unit",
    )
    results = [
        ef.run(tmp_path / "catalogue.toml", progress=False),
        ef.run(tmp_path / "file.toml", progress=False, data_dir=tmp_path),
        ef.run(federation, model="digits_mlp", rounds=2, cohort=3, lr=0.1, backend="inline", progress=False),
    ]
    first, *others = [load_file(result.path / "model.safetensors") for result in results]
    for other in others:
        assert all(np.array_equal(first[name], other[name]) for name in first)


def test_own_network_and_result(federation: ef.Federation, tmp_path: Path) -> None:
    seen: list[int] = []
    result = ef.run(
        federation,
        model=Net,
        method="fedentopt",
        folder=tmp_path / "mine",
        seeds=2,
        on_round=lambda record: seen.append(record.round),
        **FAST,
    )
    assert seen == [0, 1, 2, 0, 1, 2]
    assert result.seeds == [0, 1]
    assert result.name == "mine"
    assert len(result) == 2
    assert isinstance(result.model, Net)
    assert not result.model.training
    table = result.table()
    assert table.num_rows == 6
    assert set(table["seed"].to_pylist()) == {0, 1}
    assert result.table("clients").num_rows == 18
    assert result[1].seeds == [1]
    assert isinstance(result[1].model, Net)
    page = result.report(tmp_path / "page.html")
    assert "mine" in page.read_text()
    assert "accuracy" in str(result)
    assert "<table>" in result._repr_html_()


def test_own_metric_and_tracker(federation: ef.Federation) -> None:
    def twos(logits: np.ndarray, labels: np.ndarray) -> float:
        return float((logits.argmax(axis=1) == 2).mean())

    result = ef.run(federation, metrics=["balanced_accuracy", twos], **FAST)
    test = result.records[-1].test
    assert test is not None
    assert set(test.extra) == {"balanced_accuracy", "twos"}


def test_stored_run_opens_without_its_code(federation: ef.Federation, tmp_path: Path) -> None:
    ran = ef.run(federation, model=Net, folder=tmp_path / "mine", **FAST)
    opened = ef.open_run(tmp_path / "mine" / "seed-0")
    assert opened.summary == ran.summary
    assert [r.round for r in opened.records] == [0, 1, 2]
    with pytest.raises(ef.ConfigError, match="load_state_dict"):
        _ = opened.model
    network = Net()
    network.load_state_dict(opened.state_dict())
    assert torch.equal(network.layers[1].weight, ran.model.layers[1].weight)


def test_results_without_a_folder_are_gone_with_the_result(federation: ef.Federation) -> None:
    result = ef.run(federation, **FAST)
    path = result.path
    assert path.exists()
    del result
    assert not path.exists()


def test_resume_and_overwrite(federation: ef.Federation, tmp_path: Path) -> None:
    whole = ef.run(federation, model=Net, folder=tmp_path / "whole", **FAST)
    ef.run(federation, model=Net, folder=tmp_path / "mine", **{**FAST, "rounds": 2})
    with pytest.raises(ef.ConfigError, match="there is a run already"):
        ef.run(federation, model=Net, folder=tmp_path / "mine", **FAST)
    resumed = ef.run(federation, model=Net, folder=tmp_path / "mine", resume=True, **FAST)
    assert [r.test for r in resumed.records] == [r.test for r in whole.records]
    other = ef.Federation.from_clients([(np.eye(4), [0, 1, 0, 1]), (np.eye(4), [0, 1, 0, 1])], test=0.5)
    with pytest.raises(ef.ConfigError, match=r"data\.digest"):
        ef.run(other, folder=tmp_path / "mine", resume=True, **FAST)
    again = ef.run(federation, model=Net, folder=tmp_path / "mine", overwrite=True, **{**FAST, "rounds": 1})
    assert again.summary["rounds"] == 1


def test_a_run_given_from_python_goes_on_from_python(federation: ef.Federation, tmp_path: Path) -> None:
    result = ef.run(federation, model=Net, folder=tmp_path / "mine", **FAST)
    with pytest.raises(ef.ConfigError, match="given its data and model from Python"):
        prepare(result.folders[0].experiment())


def test_partition_may_change_with_the_seed() -> None:
    data = load("digits")

    def dealt(seed: int) -> ef.Federation:
        return ef.Federation.partition(data.train_x, data.train_y, "iid", clients=4, test=0.2, seed=seed)

    result = ef.run(dealt, seeds=[3, 5], **FAST)
    digests = [folder.experiment().data.digest for folder in result.folders]
    assert result.seeds == [3, 5]
    assert digests[0] != digests[1]


def test_compare(federation: ef.Federation) -> None:
    a = ef.run(federation, method="fedavg", seeds=2, **FAST)
    b = ef.run(federation, method=ef.methods.fedavg(weigher="uniform"), seeds=2, **FAST)
    found = ef.compare(a, b, against="fedavg")
    assert [row["experiment"] for row in found.rows] == ["fedavg", "fedavg+uniform"]
    assert [row.method for row in found.paired] == ["fedavg+uniform"]
    assert found.table().num_rows == 2
    assert "fedavg+uniform" in str(found)
    assert "fedavg+uniform" in found._repr_html_()
    with pytest.raises(ef.ConfigError, match="unknown experiment"):
        ef.compare(a, b, against="moon")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"lrr": 0.1}, "did you mean 'lr'"),
        ({"name": "mine"}, "name is a key of experiment files; here the argument for it is folder"),
        ({"namee": "mine"}, r"unknown setting 'namee' \("),
        ({"seeds": 0}, "seeds"),
        ({"seeds": [1, 1]}, "seeds"),
        ({"method": 3}, "method"),
        ({"method": "fedavgg"}, "did you mean 'fedavg'"),
        ({"model": "lenet6"}, "lenet5"),
        ({"backend": "flower"}, "EntroStrategy"),
        ({"resume": True, "overwrite": True}, "choose one"),
        ({"cohort": 0}, "cohort"),
    ],
)
def test_wrong_arguments(federation: ef.Federation, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ef.ConfigError, match=words):
        ef.run(federation, **{**FAST, **arguments})


def test_a_method_of_plain_functions(federation: ef.Federation) -> None:
    """No class, no name, no registration."""
    method = ef.Method(
        lambda clients, candidates, size, rng: rng.permutation(candidates)[:size],  # type: ignore[arg-type]
        lambda updates, context: [update.num_examples**0.5 for update in updates],  # type: ignore[arg-type]
        torch.nn.CrossEntropyLoss(label_smoothing=0.1),  # type: ignore[arg-type]
        ef.methods.fedavg().server,
    )
    result = ef.run(federation, method=method, **FAST)
    assert result.summary["refused"] == 0
    assert [len(record.cohort) for record in result.records] == [3, 3, 3]


def test_the_first_argument_must_be_a_federation() -> None:
    with pytest.raises(ef.ConfigError, match="Federation"):
        ef.run(np.zeros((3, 2)), **FAST)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_model_and_the_target_of_a_result(federation: ef.Federation, tmp_path: Path) -> None:
    """A network that only Python knows is traced from Python."""
    result = ef.run(federation, model=Net, folder=tmp_path / "x", **FAST)
    path = result.export(tmp_path / "model.pt2")
    data = federation.data
    found = torch.export.load(path).module()(torch.from_numpy(data.test_x)).argmax(1).numpy()
    round_of = model_facts(result.path / "model.safetensors")["round"]
    assert (found == data.test_y).mean() == result.records[round_of - 1].test.accuracy
    with pytest.raises(ef.ConfigError, match=r"handed over from Python.*result\.export"):
        ef.open_run(tmp_path / "x").export(tmp_path / "again.pt2")
    ef.open_run(tmp_path / "x").export(tmp_path / "model.safetensors")
    with pytest.raises(ef.ConfigError, match=r"model\.txt: a model is written as one of \.safetensors"):
        result.export(tmp_path / "model.txt")
    (reached,) = result.to_target(0.01)
    assert reached is not None
    assert reached.rounds == 1
    assert result.to_target(1.0) == [None]
