"""From nothing to peers that know each other: new, invite, join, status, and data of one's own."""

import json
import tomllib

import numpy as np
import pytest
from tests.peer.trial import change, experiment, free_ports, together, trial

from entrofed.cli.main import main
from entrofed.errors import CheckpointError, ConfigError
from entrofed.experiment.build import prepare
from entrofed.experiment.run_folder import RunFolder
from entrofed.peer import keys
from entrofed.peer.config import PeerFolder, check_address
from entrofed.peer.invite import check_no_code, join_card, write_card
from entrofed.peer.new import new_trial
from entrofed.peer.node import run_peer, setup_of
from entrofed.peer.status import status_of


def command(*words):
    with pytest.raises(SystemExit) as ended:
        main(["peer", *map(str, words)])
    return ended.value.code


def test_a_trial_is_written_whole(tmp_path, capsys):
    assert command("new", tmp_path / "t", "--peers", 5, "--topology", "small_world", "--degree", 2, "--rewire", 0) == 0
    third = PeerFolder(tmp_path / "t" / "peer-2")
    assert [neighbour.number for neighbour in third.neighbours] == [1, 3]
    assert third.experiment().topology.degree == 2
    for neighbour in third.neighbours:
        assert neighbour.certificate == PeerFolder(tmp_path / "t" / neighbour.name).certificate
    assert "entrofed peer run t/peer-4" in (tmp_path / "t" / "README.md").read_text()
    assert command("new", tmp_path / "t") == ConfigError.exit_code
    assert command("status", tmp_path / "t" / "peer-0") == 0
    assert "not started yet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [({"peers": 0}, "1 to 1000"), ({"port": 65535}, "below 65536"), ({"topology": "rinng"}, "did you mean 'ring'")],
)
def test_trials_that_cannot_be(tmp_path, options, words):
    with pytest.raises(ConfigError, match=words):
        new_trial(tmp_path / "t", **{"peers": 3, **options})


def own_table(path, rows, seed):
    """Two features that tell two classes apart."""
    rng = np.random.default_rng(seed)
    ill = rng.integers(2, size=rows)
    lines = [f"{y + rng.normal(0, 0.4):.3f},{rng.normal():.3f},{'yes' if y else 'no'}" for y in ill]
    path.write_text("pressure,age,ill\n" + "\n".join(lines) + "\n")


def two_organizations(folder, method):
    """Basel begins, Bern joins; each with a table of its own."""
    chosen = experiment(3, 2, method, model="mlp")
    port = free_ports(2)
    (basel,) = new_trial(folder / "first", peers=1, file=written(folder, chosen), port=port)
    change(basel, name="basel", data={"path": "patients.csv", "label": "ill"})
    bern = folder / "bern"
    card, shown = write_card(basel, folder / "basel.card")
    with pytest.raises(ConfigError, match="say also name, number, listen"):
        join_card(bern, card)
    made = {"name": "bern", "number": 1, "listen": f"127.0.0.1:{port + 1}"}
    joined = join_card(bern, card, **made, fingerprint=shown.lower().replace(" ", ":"))
    assert joined.theirs == shown
    change(bern, data={"path": "patients.csv", "label": "ill"})
    back, fingerprint = write_card(bern, folder / "bern.card")
    assert fingerprint == joined.ours
    join_card(basel, back)
    own_table(basel / "patients.csv", 120, 1)
    own_table(bern / "patients.csv", 60, 2)
    return basel, bern


def written(folder, chosen):
    from entrofed.experiment.config import to_toml

    path = folder / "agreed.toml"
    path.write_text(to_toml(chosen))
    return path


def test_two_organizations_with_tables_of_their_own(tmp_path):
    basel, bern = two_organizations(tmp_path, {"name": "fedep"})
    together([basel, bern])
    records = [RunFolder(path / "run").records() for path in (basel, bern)]
    assert [record.cohort for record in records[0]] == [[0, 1]] * 3
    assert records[0][-1].peers[0].weights == records[1][-1].peers[0].weights
    assert records[0][0].clients[1].examples == 48
    assert "finished, 3 rounds" in status_of(basel).words
    assert status_of(basel).neighbours[0][3:] == ["round 3", "there", "valid"]


def test_peers_that_do_not_agree_say_on_what(tmp_path):
    basel, bern = two_organizations(tmp_path, {"name": "fedavg"})
    (bern / "patients.csv").write_text((bern / "patients.csv").read_text().replace("pressure", "weight"))
    change(basel, deadline=1.0, start=1.0)
    change(bern, deadline=1.0, start=1.0)
    together([basel, bern])
    (refusal,) = RunFolder(basel / "run").records()[0].refused
    assert "do not agree on the features" in refusal.reason


def test_a_card_with_another_fingerprint_is_refused(tmp_path):
    (basel,) = new_trial(tmp_path / "t", peers=1)
    card, _ = write_card(basel, tmp_path / "card")
    made = {"name": "bern", "number": 1, "listen": "127.0.0.1:7399"}
    with pytest.raises(ConfigError, match="not the one that you were told"):
        join_card(tmp_path / "bern", card, **made, fingerprint="00 11")
    assert not (tmp_path / "bern").exists()
    join_card(tmp_path / "bern", card, **made)
    forged = json.loads(card.read_text())
    forged["certificate"] = keys.create("peer-0")[1].decode()
    card.write_text(json.dumps(forged))
    with pytest.raises(ConfigError, match="known here with another certificate"):
        join_card(tmp_path / "bern", card)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "../../etc"},
        {"number": -1},
        {"address": "nowhere"},
        {"certificate": "none"},
        {"more": 1},
        {"experiment": 'model = "os:system"'},
        {"experiment": '[method]\nweigher = { name = "evil.py:Weigher" }'},
        {"experiment": "[data]\npath = '/etc/passwd'"},
        {"experiment": "rounds = "},
        {"run": "x" * 100},
    ],
)
def test_cards_that_are_none(tmp_path, changes):
    (basel,) = new_trial(tmp_path / "t", peers=1)
    card, _ = write_card(basel, tmp_path / "card")
    card.write_text(json.dumps({**json.loads(card.read_text()), **changes}))
    with pytest.raises(ConfigError):
        join_card(tmp_path / "bern", card, name="bern", number=1, listen="127.0.0.1:7399")
    assert not (tmp_path / "bern").exists()


def test_own_code_does_not_travel(tmp_path):
    with pytest.raises(ConfigError, match="names code"):
        check_no_code('[method]\nweigher = "mine.py:Mine"', "agreed.toml")


@pytest.mark.parametrize("address", ["", "host", "host:0", "host:65536", "a b:1", "host:x", "https://host:1"])
def test_addresses_that_are_none(address):
    with pytest.raises(ValueError):
        check_address(address)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"deadline": 0}, "deadline"),
        ({"staleness": -1}, "staleness"),
        ({"listen": "here"}, "no address"),
        ({"unknown": 1}, "unknown option"),
    ],
)
def test_files_of_peers_that_are_wrong(tmp_path, changes, words):
    path = new_trial(tmp_path / "t", peers=3)[0]
    file = path / "peer.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in changes.items()]
    kept = [line for line in file.read_text().split("\n") if line.split(" =")[0] not in changes]
    file.write_text("\n".join([*lines, *kept]))
    tomllib.loads(file.read_text())
    with pytest.raises(ConfigError, match=words):
        _ = PeerFolder(path).section


def test_no_two_peers_have_one_number(tmp_path):
    path = new_trial(tmp_path / "t", peers=3)[0]
    file = path / "peer.toml"
    file.write_text(file.read_text().replace("number = 2", "number = 0"))
    with pytest.raises(ConfigError, match="that of two peers"):
        _ = PeerFolder(path).section


@pytest.mark.parametrize(
    ("sections", "words"),
    [({"faults": {"liars": 0.5}}, "liars"), ({"stop": {"target": 0.9, "on": "test"}}, "stop")],
)
def test_experiments_that_no_peer_can_play(tmp_path, sections, words):
    paths = trial(tmp_path / "t", experiment(2, 3, {"name": "fedep"}, **sections))
    with pytest.raises(ConfigError, match=words):
        run_peer(paths[0])


def test_a_peer_holds_its_own_samples_and_no_others(tmp_path):
    chosen = experiment(2, 3)
    paths = trial(tmp_path / "t", chosen)
    setups = [setup_of(PeerFolder(path)) for path in paths]
    sizes = [len(setup.federation.data.train_y) for setup in setups]
    assert sum(sizes) == len(prepare(chosen).federation.data.train_y)
    assert [int(setup.federation.sizes[k]) for k, setup in enumerate(setups)] == sizes
    assert all(setup.federation.sizes.sum() == size for setup, size in zip(setups, sizes, strict=True))


def test_a_number_without_data(tmp_path):
    paths = trial(tmp_path / "t", experiment(2, 3))
    change(paths[0], number=7)
    with pytest.raises(ConfigError, match="deals its data out to 3 peers"):
        run_peer(paths[0])


def test_edges_of_faults_must_be_those_there_are(tmp_path):
    paths = trial(tmp_path / "t", experiment(2, 4, topology={"message_loss": 0.5}))
    change(paths[0], neighbours={})
    with pytest.raises(ConfigError, match="the edges of the experiment's graph"):
        run_peer(paths[0])


def test_a_taken_port_is_said(tmp_path):
    import socket

    paths = trial(tmp_path / "t", experiment(2, 3))
    host, port = PeerFolder(paths[0]).section.listen.split(":")
    with socket.socket() as taken:
        taken.bind((host, int(port)))
        taken.listen()
        with pytest.raises(ConfigError, match="cannot be used"):
            run_peer(paths[0])


def test_a_damaged_outbox_is_not_trained_again(tmp_path):
    paths = trial(tmp_path / "t", experiment(2, 1))
    together(paths)
    (paths[0] / "run" / "outbox" / "round-000001.message").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="other noise"):
        run_peer(paths[0])
