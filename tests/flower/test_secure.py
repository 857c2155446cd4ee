"""Secure aggregation on a grid: the plain sum, dropouts, a curious server, and messages that are hostile."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from tests.flower.fake import TRAINING, FakeGrid, Federation, bits, iris, mute, start

from entrofed.errors import ConfigError, DataError
from entrofed.experiment.build import prepare
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.client_state import ClientStateStore
from entrofed.experiment.config import parse, to_toml
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.flower import EntroStrategy
from entrofed.flower.experiment import experiment_client, play_on
from entrofed.flower.masks import Key, digest, fresh_seed, mask, pair_mask, recovered, shares_of
from entrofed.flower.secure_client import KEPT, KEYS, MASKED, SECURE, SHARES, UNMASK, answer_secure
from entrofed.flower.wire import CONFIG, MEMORY

SECURED = {"privacy": {"secure": True}}


def values(result):
    return np.concatenate([array.numpy().ravel() for array in result.arrays.values()])


def asked(message):
    """What a question is about; None for other messages."""
    record = message.content.config_records.get(CONFIG, {})
    return json.loads(str(record["ask"]))["what"] if "ask" in record else None


def at(stage, change):
    """Tamper with the replies to one stage."""

    def tamper(request, reply):
        return change(request, reply) if asked(request) == stage else [reply]

    return tamper


# ----- what it is made of


def test_masks_cancel_in_a_sum() -> None:
    a, b = Key.fresh(), Key.fresh()
    total = pair_mask(a, b.public, 50, first=True) + pair_mask(b, a.public, 50, first=False)
    assert not total.any()
    seed = fresh_seed()
    np.testing.assert_array_equal(mask(seed, 50), mask(seed, 50))
    assert (mask(seed, 50) != mask(fresh_seed(), 50)).all()
    ones = np.unpackbits(mask(seed, 4000).view(np.uint8)).mean()
    assert ones == pytest.approx(0.5, abs=0.005)


def test_any_two_of_three_shares_are_enough_and_a_wrong_one_is_found() -> None:
    secret = Key.fresh()
    shares = shares_of(secret.secret, 2, 3)
    right = lambda found: Key(found).public == secret.public  # noqa: E731
    for pair in ((0, 1), (0, 2), (1, 2)):
        assert recovered([shares[i] for i in pair], 2, 48, right) == secret.secret
    bad = bytearray(shares[0])
    bad[7] ^= 1
    assert recovered([bytes(bad), b"", bytes(200), shares[1], shares[2]], 2, 48, right) == secret.secret
    assert recovered([bytes(bad), shares[1]], 2, 48, right) is None
    seed = fresh_seed()
    assert recovered(shares_of(seed, 3, 4)[:3], 3, 32, lambda found: digest(found) == digest(seed)) == seed


# ----- rounds


@pytest.mark.parametrize("method", ["fedavg", "fedentopt", "scaffold", "fednova", "feddyn", "moon"])
def test_the_sum_is_the_plain_one_but_for_rounding(method) -> None:
    """Also where clients keep something from round to round: under masks they do so themselves."""
    options = {"weigher": "uniform", "batch_size": 3}
    _, plain = start(Federation.of(iris()), method, **options)
    masked_federation = Federation.of(iris())
    strategy, masked = start(masked_federation, method, **options, **SECURED)
    more = 1.0 if method in ("fedavg", "fedentopt") else 8.0  # the second round begins from rounded numbers
    np.testing.assert_allclose(values(masked), values(plain), rtol=0, atol=2 * more * (5 * 2.0**-33 + 2.0**-22))
    keeps = method in ("scaffold", "feddyn", "moon")
    for node in masked_federation.grid.nodes.values():
        assert bool(node.context.state.array_records.get(KEPT)) == keeps
    sent = [message.content for _, message in masked_federation.grid.sent("train")]
    assert not any(content.array_records.get(MEMORY) for content in sent)
    assert [len(record["clients"]) for record in strategy.records] == [5, 5]
    assert all(record["train_loss"] is None for record in strategy.records)


def test_what_the_server_gets_is_noise() -> None:
    """The same update twice, masked: no byte says that it is the same."""
    federation, seen = Federation.of(iris()), []

    def keep(request, reply):
        seen.append(np.frombuffer(reply.content.array_records[MASKED]["sum"].data[-800:], np.uint64))
        assert set(reply.content) == {MASKED, "metrics"}
        return [reply]

    for node in federation.grid.nodes.values():
        node.tamper["train"] = keep
    start(federation, rounds=1, weigher="uniform", **SECURED)
    assert len(seen) == 5
    for one in seen:
        assert np.unpackbits(one.view(np.uint8)).mean() == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("stage", [KEYS, SHARES, "train", UNMASK])
def test_a_client_that_drops_out_at_any_stage(stage) -> None:
    """Before its masked update counts, it is left out; after, its update is in the sum."""
    federation = Federation.of(iris())
    federation.grid.named(2).tamper = {"train": mute} if stage == "train" else {"query": at(stage, mute)}
    strategy, result = start(federation, rounds=1, weigher="uniform", **SECURED)
    (record,) = strategy.records
    there = [0, 1, 2, 3, 4] if stage == UNMASK else [0, 1, 3, 4]
    assert sorted(client["client"] for client in record["clients"]) == there
    plain = Federation.of(iris())
    if stage != UNMASK:
        plain.grid.named(2).tamper = {"train": mute}
    _, expected = start(plain, rounds=1, weigher="uniform")
    np.testing.assert_allclose(values(result), values(expected), rtol=0, atol=1e-6)


def test_below_the_threshold_nothing_is_unmasked() -> None:
    federation = Federation.of(iris())
    for name in (0, 1):
        federation.grid.named(name).tamper = {"train": mute}
    strategy, result = start(federation, rounds=1, weigher="uniform", **SECURED)
    assert strategy.records[0]["skipped"]
    assert sum("nothing was unmasked" in one["reason"] for one in strategy.records[0]["refused"]) == 3
    assert bits(result.arrays) == bits(federation.arrays)
    assert not any(asked(message) == UNMASK for _, message in federation.grid.sent("query"))


def test_too_few_who_unmask() -> None:
    federation = Federation.of(iris())
    for name in (0, 1):
        federation.grid.named(name).tamper = {"query": at(UNMASK, mute)}
    strategy, result = start(federation, rounds=1, weigher="uniform", **SECURED)
    assert strategy.records[0]["skipped"]
    assert bits(result.arrays) == bits(federation.arrays)


@pytest.mark.parametrize("method", ["fedentopt", "scaffold"])
def test_an_experiment_file_under_masks_has_the_bits_of_the_simulation(method, tmp_path) -> None:
    table = {"name": method, "cohort": 3, **TRAINING}
    data = {"name": "iris", "clients": 5}
    experiment = parse({"rounds": 3, "data": data, "model": "iris_mlp", "method": table, **SECURED})
    grid, app = FakeGrid(), experiment_client(lambda context: (to_toml(experiment), None))
    for client in range(5):
        grid.join(app, 100 + client, **{"partition-id": client})
    here, there = RunFolder(tmp_path / "here"), RunFolder(tmp_path / "there")
    run(experiment, here)
    play_on(grid, experiment, there)
    records, models = [], []
    for folder in (here, there):
        records.append([replace(one, seconds={}, bytes_up=0) for one in folder.records()])
        store = ClientStateStore(folder.path / "memory", 1e6)
        models.append(Checkpoints(folder.checkpoints, prepare(experiment).layout, store).last()[0].params.values)
    assert records[0] == records[1]
    np.testing.assert_array_equal(*models)
    assert {asked(message) for _, message in grid.sent("query")} == {"hello", KEYS, SHARES, UNMASK}


# ----- a server that asks for more


@pytest.fixture
def masked(monkeypatch):
    """The contexts of four clients that have sent masked updates, and the name of their session."""
    federation, sessions = Federation.of(iris(4)), []

    def later(question, context):
        if question["what"] == UNMASK:
            sessions.append(question["session"])
            raise DataError("later")
        return answer_secure(question, context)

    monkeypatch.setattr("entrofed.flower.answers.answer_secure", later)
    start(federation, rounds=1, weigher="uniform", **SECURED)
    return {
        node.context.node_config["partition-id"]: node.context for node in federation.grid.nodes.values()
    }, sessions[0]


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        ([0], "below the threshold"),
        ([1, 2, 3], "cannot be"),  # without the client itself
        ([0, 1, 9], "cannot be"),
        ([], "cannot be"),
    ],
)
def test_a_client_tells_nothing_to_a_server_that_asks_for_too_little(there, reason, masked) -> None:
    contexts, session = masked
    with pytest.raises(DataError, match=reason):
        answer_secure({"what": UNMASK, "session": session, "there": there}, contexts[0])


def test_shares_are_told_once(masked) -> None:
    """Seeds of those who are in, keys of those who are not; after that nothing, whatever is asked."""
    contexts, session = masked
    question = {"what": UNMASK, "session": session, "there": [0, 1, 2]}
    told = answer_secure(question, contexts[0])
    assert (set(told["seeds"]), set(told["keys"])) == ({"0", "1", "2"}, {"3"})
    for again in (question, {**question, "there": [0, 1, 2, 3]}, {**question, "session": "another"}):
        with pytest.raises(DataError, match="not due"):
            answer_secure(again, contexts[0])
    assert "seed" not in str(contexts[0].state[SECURE]["memory"])


@pytest.mark.parametrize("change", [{"threshold": 1}, {"threshold": 2}, {"threshold": 9}, {"you": 1}, {"session": "x"}])
def test_shares_are_not_made_for_a_list_that_cannot_be(change) -> None:
    federation = Federation.of(iris(4))
    contexts = [node.context for node in federation.grid.nodes.values()]
    keys = {str(k): answer_secure({"what": KEYS, "session": "s"}, contexts[k]) for k in range(4)}
    question = {"what": SHARES, "session": "s", "you": 0, "keys": keys, "threshold": 3}
    with pytest.raises(DataError):
        answer_secure({**question, **change}, contexts[0])


# ----- hostile clients


def no_update(rng):
    """Arrays that are no masked update."""
    values = np.zeros(rng.choice([0, 1, 5, 67, 131]), rng.choice([np.float32, np.int64, np.int32]))
    return ArrayRecord({rng.choice(["sum", "other"]): Array(values)})


def garbage(rng):
    """An answer that no honest client gives."""
    pick = rng.randrange(7)
    if pick == 0:
        return "\0" * rng.randrange(50)
    if pick == 1:
        return json.dumps(rng.choice([None, 3, [], "x", {"shares": {}}, {"seeds": 1, "keys": {}}]))
    if pick == 2:
        return json.dumps({key: rng.randbytes(97).hex() for key in ("lock", "pair", "seed")})
    if pick == 3:
        return json.dumps({"shares": {str(k): rng.randbytes(40).hex() for k in range(rng.randrange(6))}})
    if pick == 4:
        wrong = {str(k): rng.randbytes(rng.choice([0, 20, 52, 68, 84])).hex() for k in range(5)}
        return json.dumps({"seeds": wrong, "keys": wrong})
    if pick == 5:
        return json.dumps({"seeds": {"0": "zz", "x": 5}, "keys": {str(10**30): ""}})
    return "[" * rng.randrange(1, 3000)


@pytest.mark.slow
def test_a_thousand_hostile_messages_change_nothing() -> None:
    """One of five clients answers nonsense, over and over, at some stage; the model is that of the others, or stays."""
    rng, sent = random.Random(0), 0
    left_out = Federation.of(iris())
    left_out.grid.named(2).tamper = {"train": mute}
    _, without = start(left_out, rounds=1, weigher="uniform")
    _, whole = start(Federation.of(iris()), rounds=1, weigher="uniform")
    first = np.concatenate([array.numpy().ravel() for array in left_out.arrays.values()])
    allowed = [values(without), values(whole), first]
    federation = Federation.of(iris())
    while sent < 1000:
        stage = rng.choice([KEYS, SHARES, UNMASK, "train"])

        def lie(request, reply, stage=stage):
            nonlocal sent
            sent += 8
            if stage == "train":
                lies = [RecordDict({rng.choice([MASKED, "arrays"]): no_update(rng)}) for _ in range(8)]
            else:
                lies = [RecordDict({CONFIG: ConfigRecord({"answer": garbage(rng)})}) for _ in range(8)]
            return [Message(content, reply_to=request) for content in lies]

        federation.grid.named(2).tamper = {"train": lie} if stage == "train" else {"query": at(stage, lie)}
        _, result = start(federation, rounds=1, weigher="uniform", **SECURED)
        assert min(np.abs(values(result) - model).max() for model in allowed) < 1e-6, stage
    assert sent >= 1000


def question(rng, session, kept):
    """A question that no honest server asks, or asks now; ``kept``: what a client shared with in this round."""
    names = [*map(str, range(6)), "x", "-1", "9" * 40]
    some = rng.sample(names, rng.randrange(len(names)))
    keys = {name: {key: rng.choice([Key.fresh().public.hex(), "zz", ""]) for key in ("lock", "pair")} for name in some}
    return {
        "what": rng.choice([SHARES, UNMASK]),
        "session": rng.choice([session, "another", None, 3]),
        "you": rng.choice([0, 1, "x", None]),
        "threshold": rng.choice([0, 1, 2, 3, 99, -1]),
        "there": rng.choice([[], [0], [0, 0, 0], some, [1, 2, 3], [0, 9, 8], None, {"0": 1}, [[0]], 5]),
        "keys": rng.choice([keys, {}, None, kept]),
    }


def test_a_thousand_hostile_questions_reveal_no_share(masked) -> None:
    """Of a client that has sent its masked update; afterwards it still tells what an honest server asks for."""
    contexts, session = masked
    rng, told = random.Random(1), 0
    memory = json.loads(str(contexts[0].state[SECURE]["memory"]))
    secrets = [one[kind] for one in memory["shares"].values() for kind in ("seed", "key")]
    for _ in range(1000):
        try:
            answer = json.dumps(answer_secure(question(rng, session, memory["keys"]), contexts[0]))
        except Exception as error:
            answer = str(error)
        told += any(secret in answer for secret in [*secrets, memory["seed"], memory["pair"], memory["lock"]])
    assert told == 0
    found = answer_secure({"what": UNMASK, "session": session, "there": [0, 1, 2, 3]}, contexts[0])
    assert set(found["seeds"]) == {"0", "1", "2", "3"}


def test_methods_that_cannot_are_refused() -> None:
    for method in ("fedklentropy", "inv_entropy"):
        with pytest.raises(ConfigError):
            EntroStrategy(method, classes=3, **SECURED)
