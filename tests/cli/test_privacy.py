"""``entrofed privacy``."""

import json
from pathlib import Path

import pytest

from entrofed.cli.main import main


def called(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


def test_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Chance with amplification is the cheapest; rest makes choosing by data cheaper, and never by chance."""
    file = tmp_path / "private.toml"
    file.write_text(
        'rounds = 30\nmodel = "iris_mlp"\n[data]\nname = "iris"\nclients = 1000\n[method]\nname = "fedentopt"\n'
        "cohort = 100\n[privacy]\nepsilon = 0.5\n[privacy.updates]\nclip = 1.0\nepsilon = 4.0\ndelta = 1e-5\n"
    )
    assert called("privacy", "plan", str(file), "--json") == 0
    ways = {way["name"]: way for way in json.loads(capsys.readouterr().out)["ways"]}
    order = ["poisson", "fedentopt, buffer 50%", "by data, without rest"]
    assert [ways[name]["steps"] for name in order] == [30, 5, 30]
    assert sorted(order, key=lambda name: ways[name]["noise"]) == order
    assert all(3.9 < way["epsilon"] <= 4.0 and way["rounds"] >= 30 for way in ways.values())


def test_a_multiplier_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("privacy", "plan", "--epsilon", "1", "--noise", "2", "--rounds", "10", "--rest", "0.5") == 0
    assert "rounds: that fit the budget" in " ".join(capsys.readouterr().out.split())


def test_a_way_that_does_not_fit_is_said_and_the_others_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 30 clients, coins with rate 1/6 draw nobody in one of 40 rounds with probability 40 (5/6)^30 = 0.17."""
    words = ("privacy", "plan", "--clients", "30", "--cohort", "5", "--rounds", "40", "--epsilon", "8")
    assert called(*words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "poisson does not fit" in said
    assert "a probability of up to 0.17 in 40 rounds; it must be below delta = 1e-05" in said
    assert called(*words, "--json") == 0
    poisson, *others = json.loads(capsys.readouterr().out)["ways"]
    assert poisson["noise"] is None
    assert "empty cohort" in poisson["problem"]
    assert len(others) == 4
    assert all(way["problem"] is None and 7.9 < way["epsilon"] <= 8 for way in others)


def test_label_counts_above_the_budget_leave_the_ways_that_need_none(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("privacy", "plan", "--epsilon", "1", "--counts", "2", "--rounds", "10", "--rest", "0.5", "--json")
    assert called(*words) == 0
    fits = {way["name"]: way["problem"] is None for way in json.loads(capsys.readouterr().out)["ways"]}
    assert fits == {"poisson": True, "random": True, "fedentopt, buffer 50%": False, "by data, without rest": False}


def test_a_budget_for_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Renyi divergences of our orders bound no epsilon as small as that, and the label counts cost more."""
    assert called("privacy", "plan", "--epsilon", "0.001", "--counts", "0.5") == 2
    assert "no way of choosing clients fits the budget" in " ".join(capsys.readouterr().err.split())


def test_what_cannot_be_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called("privacy", "plan") == 2
    assert "--epsilon" in capsys.readouterr().err
    assert called("privacy", "plan", "--epsilon", "1", "--clients", "5", "--cohort", "9") == 2
    file = tmp_path / "plain.toml"
    file.write_text('rounds = 2\nmodel = "iris_mlp"\n[data]\nname = "iris"\nclients = 5\n')
    assert called("privacy", "plan", str(file), "--epsilon", "1") == 2
    assert "no [privacy.updates]" in capsys.readouterr().err


def test_audit(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("privacy", "audit", "--trials", "400", "--participations", "1") == 0
    assert "holds" in capsys.readouterr().out
