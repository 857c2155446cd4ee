"""Keys and certificates: a peer is known by its certificate, which it signs itself and its neighbours keep.

There is no authority in the middle. Who holds the key of a certificate that a neighbour keeps is that peer; the
fingerprint is what two people compare on the phone.
"""

import os
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from entrofed.errors import ConfigError
from entrofed.files import write_whole

KEY, CERTIFICATE = "key.pem", "certificate.pem"
DAYS = 730
"""How long a new certificate is valid."""
HOST = "peer.entrofed"
"""The host that every certificate is for: a peer is known by its certificate, wherever it runs."""


def create(name: str, *, begins: datetime | None = None, days: int = DAYS) -> tuple[bytes, bytes]:
    """A new private key (P-256) and its certificate, both PEM; the certificate cannot sign others."""
    key = ec.generate_private_key(ec.SECP256R1())
    whose = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begins = begins or datetime.now(UTC) - timedelta(hours=1)  # clocks differ
    certificate = (
        x509.CertificateBuilder()
        .subject_name(whose)
        .issuer_name(whose)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private, certificate.public_bytes(Encoding.PEM)


def write(folder: Path, name: str) -> bytes:
    """Give the peer in a folder a key, which only its user may read, and a certificate; returns the certificate."""
    private, certificate = create(name)
    before = os.umask(0o077)
    try:
        write_whole(folder / KEY, private)
    finally:
        os.umask(before)
    write_whole(folder / CERTIFICATE, certificate)
    return certificate


def parsed(pem: bytes, where: str) -> x509.Certificate:
    """A certificate; a ConfigError if it is none."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise ConfigError(f"{where}: not a certificate (PEM): {error}") from None


def read(path: Path) -> bytes:
    """A key or certificate from its file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path}: not readable ({error.strerror}); 'entrofed peer' writes it with new and join"
        ) from None


def digest(pem: bytes) -> str:
    """SHA-256 of a certificate as it is in binary: the same whatever lines the text has."""
    return sha256(parsed(pem, "certificate").public_bytes(Encoding.DER)).hexdigest()


def fingerprint(pem: bytes) -> str:
    """The digest as people read it to each other: 16 groups of four."""
    found = digest(pem).upper()
    return " ".join(found[i : i + 4] for i in range(0, len(found), 4))


def expired(pem: bytes, where: str) -> str | None:
    """Why a certificate cannot be used today, or None."""
    found, now = parsed(pem, where), datetime.now(UTC)
    if now > found.not_valid_after_utc:
        return f"expired on {found.not_valid_after_utc:%Y-%m-%d}"
    if now < found.not_valid_before_utc:
        return f"not valid before {found.not_valid_before_utc:%Y-%m-%d}"
    return None
