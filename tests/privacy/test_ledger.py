"""Another name for a run draws no other noise, and what was spent before is said."""

import threading
from typing import Any

import numpy as np
import pytest

from entrofed.errors import DataError
from entrofed.experiment.build import prepare, release_once
from entrofed.experiment.config import Experiment, parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.files import data_folder
from entrofed.privacy.counts import Release
from entrofed.suite.words import privacy_words


def private(seed: int = 0, **privacy: Any) -> Experiment:
    data = {"name": "digits", "clients": 6, "partition": "dirichlet_balanced", "alpha": 0.5}
    method = {"name": "fedentopt", "cohort": 2}
    return parse({"rounds": 1, "seed": seed, "data": data, "method": method, "privacy": {"epsilon": 0.5} | privacy})


def released(chosen: Experiment, folder: RunFolder) -> Release:
    folder.path.mkdir(parents=True, exist_ok=True)
    found = release_once(prepare(chosen), folder)
    assert found is not None
    return found


def test_another_name_draws_no_other_noise(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    one, two = (released(private(), RunFolder(tmp_path / name)) for name in ("one", "two"))
    assert np.array_equal(one.counts, two.counts)
    assert (one.spent["epsilon_before"], one.spent["epsilon_in_all"], one.spent["drawn"]) == (0, 0.5, 6)
    assert (two.spent["epsilon_before"], two.spent["epsilon_in_all"], two.spent["drawn"]) == (0.5, 0.5, 0)
    assert "epsilon 0.5 was spent before, 0.5 is with this run (0 clients draw new noise)" in caplog.text


@pytest.mark.parametrize("other", [{"epsilon": 1.0}, {"epsilon": 1.0, "neighbours": "replace"}, {"seed": 1}])
def test_what_is_drawn_anew_adds_up(tmp_path: Any, other: dict[str, Any]) -> None:
    """With another epsilon, and where another seed deals the same records to other clients."""
    first = released(private(), RunFolder(tmp_path / "one"))
    again = released(private(**other), RunFolder(tmp_path / "two"))
    assert not np.array_equal(first.counts, again.counts)
    assert again.spent["epsilon_before"] == 0.5
    assert again.spent["epsilon_in_all"] == 0.5 + other.get("epsilon", 0.5)
    assert again.spent["drawn"] == 6


def test_the_summary_says_what_was_spent_before(tmp_path: Any) -> None:
    run(private(), RunFolder(tmp_path / "one"))
    summary = run(private(epsilon=1.0), RunFolder(tmp_path / "two"))
    assert "epsilon 0.5 was spent on this data before, 1.5 is in all" in privacy_words(summary)


def test_simulated_noise_is_in_no_ledger(tmp_path: Any) -> None:
    found = released(private(simulate=True), RunFolder(tmp_path))
    assert "simulated, not private" in found.spent["mechanism"]
    assert not data_folder().exists()


def test_runs_that_begin_at_once_draw_once(tmp_path: Any) -> None:
    setup, found = prepare(private()), list[Any]()

    def ask(number: int) -> None:
        folder = RunFolder(tmp_path / str(number))
        folder.path.mkdir()
        found.append(release_once(setup, folder))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert sum(one.spent["drawn"] for one in found) == 6
    assert all(np.array_equal(one.counts, found[0].counts) for one in found)


def test_a_ledger_that_cannot_be_read_is_no_reason_to_draw(tmp_path: Any) -> None:
    data_folder().mkdir(parents=True)
    (data_folder() / "released.sqlite").write_bytes(b"no ledger, but some text " * 100)
    with pytest.raises(DataError, match="it is not known what was spent"):
        released(private(), RunFolder(tmp_path / "run"))
