"""What never acted is said: in the summary, and wherever it is shown."""

from typing import Any

import pytest
from tests.cli.calls import caller

from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

DATA = {"name": "iris", "partition": "iid", "clients": 6}
CASES: dict[str, tuple[dict[str, Any], str | None]] = {
    "a clip that never clips": ({"method": {"server": {"name": "clipped", "norm": 1e6}}}, "no step was longer than"),
    "a clip that clips": ({"method": {"server": {"name": "clipped", "norm": 1e-3}}}, None),
    "a clip among peers": (
        {"method": {"server": {"name": "clipped", "norm": 1e6}}, "topology": {"kind": "ring"}},
        "no step was longer than norm = 1e+06",
    ),
    "a cap that never caps": ({"method": {"weigher": {"name": "capped", "share": 0.9}}}, "no weight was above share"),
    "a cap that caps": (
        {"method": {"weigher": {"name": "capped", "share": 0.2, "weigher": "label_entropy"}}, "data": {"clients": 4}},
        None,
    ),
    "a trimmed mean of two": ({"method": {"server": "trimmed_mean", "cohort": 2}}, "nobody was left out"),
    "a trimmed mean of three": ({"method": {"server": "trimmed_mean", "cohort": 3}}, None),
    "a choice of all": ({"method": {"name": "fedentopt", "cohort": 6}}, "every client was chosen in every round, and"),
    "a choice of some": ({"method": {"name": "fedentopt", "cohort": 3}}, None),
    "everybody": ({"method": {"cohort": 6}}, None),
    "an average that begins too late": (
        {"method": {"server": {"name": "averaged", "start": 9}}},
        "ends before two models are averaged",
    ),
    "a dropout of nobody": ({"faults": {"dropout": 0.1}, "method": {"cohort": 3}}, "rounds to 0"),
    "a dropout of one": ({"faults": {"dropout": 0.4}, "method": {"cohort": 3}}, None),
    "stragglers of one epoch": ({"faults": {"stragglers": 0.5}, "method": {"epochs": 1}}, "epochs, and that is 1"),
    "stragglers": ({"faults": {"stragglers": 0.5}, "method": {"epochs": 3}}, None),
    "nobody joins": ({"faults": {"joining": 0.05}}, "of 6 clients that is nobody"),
    "claims that nobody hears": ({"faults": {"liars": 0.5}}, "looks at nobody's label counts"),
    "a deadline that nobody misses": ({"clock": {"deadline": 1e6}}, "nobody came too late"),
    "a deadline": ({"clock": {"deadline": 0.5}, "method": {"max_skipped": 9}}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_what_never_acted(case: str, tmp_path: Any) -> None:
    sections, words = CASES[case]
    table = {**sections, "data": {**DATA, **sections.get("data", {})}, "engine": {"backend": "inline"}}
    experiment = parse({"rounds": 2, "model": "iris_mlp", **table})
    found = run(experiment, RunFolder(tmp_path)).get("never_acted", [])
    assert (RunFolder(tmp_path).summary() or {}).get("never_acted", []) == found
    if words is None:
        assert not found
    else:
        assert len(found) == 1
        assert words in found[0]


def test_it_is_shown(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    go = caller(capsys)
    (tmp_path / "x.toml").write_text(
        'rounds = 1\nmodel = "iris_mlp"\n[data]\nname = "iris"\nclients = 4\n[clock]\ndeadline = 1e6\n'
    )
    for words in (["run", tmp_path / "x.toml", "--out", tmp_path], ["show", tmp_path / "x"]):
        found = go(*map(str, words))
        assert found.code == 0
        assert "never acted: clock.deadline = 1e+06: nobody came too late" in found.out
