"""Signed keys: a server that puts keys of its own in between learns nothing."""

import json

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import ConfigRecord
from tests.flower.fake import Federation, bits, iris, start
from tests.flower.test_secure import SECURED, asked

from entrofed.errors import ConfigError, DataError
from entrofed.flower.identity import SIGNATURE, SIGNER, Identity, identity_of
from entrofed.flower.masks import Key
from entrofed.flower.secure_client import SHARES
from entrofed.flower.wire import CONFIG

KEYS = {"lock": "aa", "pair": "bb", "seed": "cc"}


def write_key(path):
    key = ec.generate_private_key(ec.SECP384R1())
    form = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    path.with_suffix(".pub").write_bytes(public + b" somebody@somewhere\n")
    return key


@pytest.fixture
def federation(tmp_path):
    """Five clients that know each other's keys."""
    found = Federation.of(iris())
    for node in found.grid.nodes.values():
        config = node.context.node_config
        path = tmp_path / f"node-{config['partition-id']}"
        write_key(path)
        config.update({"signing-key": str(path), "trusted-keys": str(tmp_path)})
    return found


def test_clients_that_know_each_other(federation) -> None:
    strategy, result = start(federation, rounds=1, weigher="uniform", **SECURED)
    assert len(strategy.records[0]["clients"]) == 5
    assert bits(result.arrays) != bits(federation.arrays)


@pytest.mark.parametrize("signed", [False, True])
def test_a_server_in_the_middle_gets_no_share(federation, signed, tmp_path) -> None:
    """It gives everybody a key of its own in place of client 1's, with the old signature, or with one of its own."""
    mine, outside = Key.fresh().public.hex(), tmp_path / "outside"
    outside.mkdir()
    server = Identity(write_key(outside / "server"))
    push = federation.grid.push_messages

    def swapped(messages):
        messages = list(messages)
        for message in messages:
            if asked(message) == SHARES:
                question = json.loads(str(message.content.config_records[CONFIG]["ask"]))
                if question["you"] == 1:
                    continue
                theirs = {**question["keys"]["1"], "lock": mine}
                question["keys"]["1"] = server.signed(question["session"], theirs) if signed else theirs
                message.content[CONFIG] = ConfigRecord({"ask": json.dumps(question)})
        return push(messages)

    federation.grid.push_messages = swapped
    strategy, result = start(federation, rounds=1, weigher="uniform", **SECURED)
    assert strategy.records[0]["skipped"]
    reason = "not signed by any that is trusted" if signed else "does not fit its keys"
    assert sum(reason in one["reason"] for one in strategy.records[0]["refused"]) == 4
    assert bits(result.arrays) == bits(federation.arrays)


def test_one_client_is_not_two(federation) -> None:
    """Whoever is trusted cannot stand for two clients, nor bring keys of another round."""
    first, second = (identity_of(node.context) for node in list(federation.grid.nodes.values())[:2])
    both = {"0": first.signed("s", KEYS), "1": second.signed("s", {**KEYS, "pair": "dd"})}
    first.check("s", both)
    with pytest.raises(DataError, match="who has signed others"):
        first.check("s", {**both, "2": first.signed("s", {**KEYS, "pair": "ee"})})
    with pytest.raises(DataError, match="does not fit"):
        first.check("another", both)
    with pytest.raises(DataError, match="not signed"):
        first.check("s", {**both, "2": KEYS})
    with pytest.raises(DataError, match="does not fit"):
        first.check("s", {"0": {**both["0"], SIGNATURE: "zz"}, "1": both["1"]})
    with pytest.raises(DataError, match="not signed"):
        first.check("s", {"0": {**both["0"], SIGNER: "ssh-ed25519 AAAA"}})


def test_what_a_node_says_wrongly(federation, tmp_path) -> None:
    node = next(iter(federation.grid.nodes.values())).context
    empty = tmp_path / "empty"
    empty.mkdir()
    for change, reason in (
        ({"signing-key": ""}, "trusted-keys without signing-key"),
        ({"signing-key": str(tmp_path / "absent")}, "no private key"),
        ({"signing-key": str(tmp_path / "node-0.pub")}, "no private key"),
        ({"trusted-keys": str(empty)}, "there is none"),
        ({"trusted-keys": str(tmp_path / "node-0")}, "no public keys"),
    ):
        before = dict(node.node_config)
        node.node_config.update(change)
        with pytest.raises(ConfigError, match=reason):
            identity_of(node)
        node.node_config.update(before)
