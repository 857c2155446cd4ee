"""Certificates for a SuperLink, and a key for each SuperNode.

::

    python make_keys.py keys --host superlink.example.org --nodes 3

``keys/ca.crt`` goes to everybody, ``server.pem`` and ``server.key`` to the SuperLink, ``node-K`` to SuperNode K alone,
``node-K.pub`` is registered. ``ca.key`` signs further certificates: keep it offline. Files that are there stay.
"""

import argparse
import ipaddress
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def main() -> None:
    """Read the command line, write what is missing."""
    parser = argparse.ArgumentParser(description="Certificates for a SuperLink, and a key for each SuperNode.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--host", action="append", help="a name or address of the SuperLink; may be repeated")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--days", type=int, default=365)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (options.folder / "ca.crt").exists():
        certify(options.folder, options.host or ["localhost", "127.0.0.1"], options.days)
    for number in range(options.nodes):
        if not (options.folder / f"node-{number}").exists():
            node_key(options.folder / f"node-{number}")


def certify(folder: Path, hosts: list[str], days: int) -> None:
    """A certificate authority of our own, and the SuperLink's certificate signed by it."""
    authority, server = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "federation")])
    root = (
        _certificate(issuer, issuer, authority.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
        .sign(authority, hashes.SHA384())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
    own = (
        _certificate(subject, issuer, server.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .sign(authority, hashes.SHA384())
    )
    _write(folder / "ca.key", _pem(authority))
    _write(folder / "server.key", _pem(server))
    _write(folder / "server.pem", own.public_bytes(serialization.Encoding.PEM))
    _write(folder / "ca.crt", root.public_bytes(serialization.Encoding.PEM))


def node_key(path: Path) -> None:
    """A SuperNode's key, in the form that ssh-keygen writes."""
    key = ec.generate_private_key(ec.SECP384R1())
    ssh = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    public = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    _write(path.with_name(f"{path.name}.pub"), key.public_key().public_bytes(*public) + b"\n")
    _write(path, key.private_bytes(serialization.Encoding.PEM, *ssh))


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        issuer, subject, key, x509.random_serial_number(), now - timedelta(minutes=5), now + timedelta(days=days)
    )


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(digital_signature, False, False, False, False, key_cert_sign, crl_sign, False, False)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, *form)


def _write(path: Path, content: bytes) -> None:
    """A new file that only its owner can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


if __name__ == "__main__":
    main()
