"""What is measured after a round besides the test set."""

import pytest

from entrofed.errors import ConfigError
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.papers.results import result


def test_learning_curves_on_training_and_validation_data(tmp_path):
    """On data that the server and the clients share evenly, the three parts of the data say about the same."""
    table = {
        "rounds": 4,
        "evaluate_every": 2,
        "evaluate_on": ["training", "validation"],
        "data": {"name": "iris", "partition": "iid", "clients": 3},
        "method": {"cohort": 3, "lr": 0.1},
        "model": "iris_mlp",
        "engine": {"backend": "inline"},
    }
    folder = RunFolder(tmp_path / "run")
    run(parse(table), folder)
    records = folder.records()
    assert [set(record.parts) for record in records] == [set(), {"training", "validation"}] * 2
    sizes = {part: sum(map(sum, found.confusion)) for part, found in records[-1].parts.items()}
    assert sizes == {"training": 0, "validation": 0}  # matrices are of the test set alone
    for part, samples in (("training", 90), ("validation", 30)):
        right = records[-1].parts[part].accuracy * samples
        assert right == pytest.approx(round(right))
    kept = result(folder, "inv_entropy/table8", "iris", "FedAvg").series
    assert kept["training_accuracy"] == [record.parts["training"].accuracy for record in records[1::2]]
    assert kept["validation_loss"] == [record.parts["validation"].loss for record in records[1::2]]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"evaluate_on": ["validation"]}, "evaluate_on names the validation set, and 'digits' has none"),
        ({"evaluate_on": ["training"], "topology": {"kind": "ring"}}, "evaluate_on has no meaning with a .topology."),
        ({"evaluate_on": ["tests"]}, "evaluate_on"),
    ],
)
def test_what_cannot_be_evaluated_on(tmp_path, more, says):
    with pytest.raises(ConfigError, match=says):
        run(parse({"rounds": 1, "data": {"name": "digits", "clients": 4}, **more}), RunFolder(tmp_path / "run"))
