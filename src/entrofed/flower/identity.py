"""Whose keys are whose: clients sign the keys of a round, and share secrets with clients that they know, nobody else.

A server passes on the clients' keys. One that puts its own in their place could read every share, and so every update.
It cannot where clients know each other's signing keys from elsewhere: ``signing-key`` in a node's configuration names
its own (the key that its SuperNode signs on with will do), ``trusted-keys`` a file with the public keys of all clients
that may be in a sum, one per line, or a folder of ``*.pub`` files, in the form that ssh-keygen writes.

    flower-supernode ... --node-config "partition-id=0 signing-key='keys/node-0' trusted-keys='keys/clients'"

What is signed is the session and the three keys of the round: who signs twice in a round, or in another's name, or an
earlier round's, is not accepted. Not settled by this: a trusted client that colludes with the server, and a server
that leaves clients out; of fewer than the threshold there is no sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)
from flwr.app import Context

from entrofed.errors import ConfigError, DataError

SIGNER, SIGNATURE = "signer", "signature"
SIGNED = ("lock", "pair", "seed")
HASH = ec.ECDSA(SHA384())


@dataclass(frozen=True)
class Identity:
    """A client's signing key, and those that it trusts; without them it believes the server."""

    key: ec.EllipticCurvePrivateKey | None = None
    trusted: frozenset[str] | None = None

    def signed(self, session: str, keys: Mapping[str, str]) -> dict[str, str]:
        """The keys, with whose they are."""
        if self.key is None:
            return dict(keys)
        signature = self.key.sign(_words(session, keys), HASH)
        return {**keys, SIGNER: _text(self.key.public_key()), SIGNATURE: signature.hex()}

    def check(self, session: str, everybody: Mapping[str, Mapping[str, str]]) -> None:
        """Raise a DataError unless all keys are signed, each client's by another key that is trusted."""
        if self.trusted is None:
            return
        signers: set[str] = set()
        for name, keys in everybody.items():
            signer = keys.get(SIGNER, "")
            if signer not in self.trusted:
                raise DataError(f"the keys of client {name} are not signed by any that is trusted; nothing is shared")
            if signer in signers:
                raise DataError(f"the keys of client {name} are signed by who has signed others; nothing is shared")
            signers.add(signer)
            try:
                _public(signer).verify(bytes.fromhex(keys[SIGNATURE]), _words(session, keys), HASH)
            except (InvalidSignature, KeyError, ValueError):
                raise DataError(f"the signature of client {name} does not fit its keys; nothing is shared") from None


def identity_of(context: Context) -> Identity:
    """As the configuration of the node says."""
    own, others = (str(context.node_config.get(name, "")) for name in ("signing-key", "trusted-keys"))
    if others and not own:
        raise ConfigError("trusted-keys without signing-key: the others could not know this client; name its key, too")
    return Identity(_private(Path(own)) if own else None, _trusted(Path(others)) if others else None)


def _private(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        found = load_ssh_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"signing-key {path}: no private key as ssh-keygen writes it ({error})") from None
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"signing-key {path}: an ECDSA key is expected: ssh-keygen -t ecdsa -b 384")
    return found


def _trusted(path: Path) -> frozenset[str]:
    files = sorted(path.glob("*.pub")) if path.is_dir() else [path]
    try:
        lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        found = frozenset(_text(_public(line)) for line in lines)
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"trusted-keys {path}: no public keys as ssh-keygen writes them ({error})") from None
    if not found:
        raise ConfigError(f"trusted-keys {path}: there is none; no client could be trusted")
    return found


def _public(text: str) -> ec.EllipticCurvePublicKey:
    found = load_ssh_public_key(text.encode())
    if not isinstance(found, ec.EllipticCurvePublicKey):
        raise ValueError("an ECDSA key is expected")
    return found


def _text(key: ec.EllipticCurvePublicKey) -> str:
    """The same key is the same text, whatever comment its file has."""
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _words(session: str, keys: Mapping[str, str]) -> bytes:
    parts = ["entrofed keys", session, *(keys[name] for name in SIGNED)]
    return b"".join(sha256(part.encode()).digest() for part in parts)  # of one length each: nothing can be shifted
