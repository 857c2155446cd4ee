from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from entrofed.core.records import RoundRecord
from entrofed.errors import ConfigError
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run


def records(path: Path, method: dict[str, Any], engine: str = "inline", **settings: Any) -> list[RoundRecord]:
    table = {
        "rounds": 3,
        "alignment_every": 1,
        "model": "iris_mlp",
        "data": {"name": "iris", "partition": "iid", "clients": 3},
        "method": {"cohort": 3, "batch_size": 1000, "lr": 0.01, **method},
        "engine": {"backend": engine, "workers": 2},
        **settings,
    }
    folder = RunFolder(path / engine / "seed-0")
    run(parse(table), folder)
    return folder.records()


@pytest.fixture
def without_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.nn.Dropout.forward", lambda self, x: x)


def test_one_full_step_of_everybody_is_the_gradient_step(tmp_path, without_dropout):
    for record in records(tmp_path, {"epochs": 1}):
        found = record.alignment
        assert found.cosine == pytest.approx(1, abs=1e-5)
        assert found.stretch == pytest.approx(1, rel=1e-4)
        assert found.error == pytest.approx(0, abs=1e-4 * found.step**2)


def test_more_local_steps_are_longer_not_much_worse_aligned(tmp_path, without_dropout):
    for record in records(tmp_path, {"epochs": 5}):
        found = record.alignment
        assert 4 < found.stretch < 6
        assert found.cosine > 0.99
        assert found.error == pytest.approx((found.stretch - 1) ** 2 * (0.01 * found.gradient) ** 2, rel=0.1)


def test_measuring_changes_nothing_and_is_the_same_on_every_backend(tmp_path):
    method = {"batch_size": 8, "epochs": 2}
    inline = records(tmp_path, method)
    elsewhere = records(tmp_path, method, "processes")
    never = records(tmp_path / "never", method, alignment_every=0)
    sometimes = records(tmp_path / "sometimes", method, alignment_every=2)
    strip = lambda rows: [replace(row, seconds={}, alignment=None) for row in rows]  # noqa: E731
    assert strip(inline) == strip(elsewhere) == strip(never)
    assert [r.alignment for r in inline] == [r.alignment for r in elsewhere]
    assert [r.alignment is None for r in never] == [True] * 3
    assert [r.alignment is None for r in sometimes] == [True, False, True]


def test_peers_have_no_global_model_to_measure(tmp_path):
    with pytest.raises(ConfigError, match="alignment_every has no meaning"):
        records(tmp_path, {}, topology={"kind": "ring"})
