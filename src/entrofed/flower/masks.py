"""What secure aggregation is made of: keys, shares of secrets, and masks that cancel in a sum.

Key agreement, Shamir's shares and encryption are Flower's own (``flwr.common.secure_aggregation``). Masks are not:
Flower expands a key of 256 bits by a generator that is seeded with 32 of them, which a server can try out; ours are a
ChaCha20 stream of the whole key. Sums are of whole numbers modulo 2^64 (:mod:`entrofed.privacy.fixed_point`).

Reference: Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning, CCS 2017, Figure 4,
for a server that is honest but curious.
"""

import os
from base64 import urlsafe_b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from random import Random

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.fernet import InvalidToken
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt, encrypt, generate_shared_key

from entrofed.errors import DataError
from entrofed.privacy.fixed_point import Whole

CURVE, SCALAR, SEED = ec.SECP384R1(), 48, 32
TRIES = 200
"""Sets of shares that are tried where some are wrong."""


@dataclass(frozen=True)
class Key:
    """A key pair."""

    secret: bytes
    """The private number, 48 bytes."""

    @classmethod
    def fresh(cls) -> "Key":
        """From the operating system's randomness."""
        value = ec.generate_private_key(CURVE).private_numbers().private_value
        return cls(value.to_bytes(SCALAR, "big"))

    @property
    def _private(self) -> ec.EllipticCurvePrivateKey:
        try:
            return ec.derive_private_key(int.from_bytes(self.secret, "big"), CURVE)
        except ValueError as error:
            raise DataError(f"not a private key: {error}") from None

    @property
    def public(self) -> bytes:
        """For everybody."""
        return self._private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def shared(self, public: bytes) -> bytes:
        """The key that both owners find, each with the other's public one."""
        try:
            other = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, public)
        except ValueError as error:
            raise DataError(f"not a public key: {error}") from None
        return generate_shared_key(self._private, other)


def fresh_seed() -> bytes:
    """Of a client's own mask."""
    return os.urandom(SEED)


def digest(secret: bytes) -> bytes:
    """What a seed is known by before it is told."""
    return sha256(b"entrofed seed" + secret).digest()


def mask(seed: bytes, length: int) -> Whole:
    """A stream of whole numbers that only those can make who know the seed."""
    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor().update(bytes(8 * length))
    return np.frombuffer(stream, "<u8").astype(np.uint64)


def pair_mask(key: Key, public: bytes, length: int, *, first: bool) -> Whole:
    """The mask of two clients: what one of them adds, the other (``first``: of the lower number) takes away."""
    found = mask(urlsafe_b64decode(key.shared(public)), length)
    return found if first else np.negative(found)


def shares_of(secret: bytes, threshold: int, number: int) -> list[bytes]:
    """Shares, any ``threshold`` of which give the secret; fewer tell nothing."""
    return [bytes(share) for share in create_shares(secret, threshold, number)]


def recovered(shares: Sequence[bytes], threshold: int, size: int, right: Callable[[bytes], bool]) -> bytes | None:
    """The secret of so many bytes for which ``right(secret)`` holds; None if none is found.

    Some of the shares may be wrong: sets of them are tried, drawn by chance.
    """
    usable = [share for share in shares if len(share) == 4 + 16 * (size // 16 + 1)]  # an index, and padded blocks
    if len(usable) < threshold:
        return None
    draw = Random(0)
    for attempt in range(TRIES):
        chosen = usable[:threshold] if not attempt else draw.sample(usable, threshold)
        try:
            secret = bytes(combine_shares(chosen))
            if right(secret):
                return secret
        except (ValueError, IndexError, DataError, OverflowError):
            continue
    return None


def sealed_for(key: bytes, content: bytes) -> bytes:
    """Readable, and changeable, by those who have the key."""
    return bytes(encrypt(key, content))


def opened(key: bytes, content: bytes) -> bytes:
    """What was sealed; a DataError if it was not, or was changed."""
    try:
        return bytes(decrypt(key, content))
    except (InvalidToken, InvalidSignature, ValueError, TypeError):
        raise DataError("a share cannot be decrypted") from None
