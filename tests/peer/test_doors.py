"""Who may talk to a peer at all: an unknown, an expired, a borrowed certificate, and no TLS."""

import os
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from tests.peer.processes import LONG, played, until
from tests.peer.trial import experiment, trial

from entrofed.files import write_whole
from entrofed.peer import keys
from entrofed.peer.config import PeerFolder
from entrofed.peer.service import HELLO, MODEL


def call(address, trusted, private, certificate, method=MODEL):
    """What comes of a call."""
    credentials = grpc.ssl_channel_credentials(trusted, private, certificate)
    options = [("grpc.ssl_target_name_override", keys.HOST), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(address, credentials, options) as channel:
        try:
            return channel.unary_unary(method)(b"", timeout=LONG)
        except grpc.RpcError as error:
            return error.code()


def signed_by(private, certificate):
    """A key and a certificate that the holder of another one signed."""
    other_key, other = keys.create("other")
    mine, wanted = x509.load_pem_x509_certificate(certificate), x509.load_pem_x509_certificate(other)
    signed = (
        x509.CertificateBuilder()
        .subject_name(wanted.subject)
        .issuer_name(mine.subject)
        .public_key(wanted.public_key())
        .serial_number(7)
        .not_valid_before(mine.not_valid_before_utc)
        .not_valid_after(mine.not_valid_after_utc)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(keys.HOST)]), critical=False)
        .sign(load_pem_private_key(private, None), hashes.SHA256())
    )
    return other_key, signed.public_bytes(Encoding.PEM) + certificate


@pytest.mark.slow
def test_only_known_and_valid_certificates_get_in(tmp_path):
    """At a peer that is started by hand, and waits for its neighbours in the first round."""
    paths = trial(tmp_path / "trial", experiment(2, 3, topology={"kind": "full"}))
    old = keys.create("peer-2", begins=datetime.now(UTC) - timedelta(days=9), days=2)
    write_whole(paths[0] / "neighbours" / "peer-2.pem", old[1])  # it has expired since
    first, second = PeerFolder(paths[0]), PeerFolder(paths[1])
    address, trusted = first.section.listen, first.certificate
    log = paths[0] / "run" / "log.txt"
    silent = {**os.environ, "GRPC_VERBOSITY": "error"}  # as Flower sets it, for one
    command = "import sys; from entrofed.cli.main import main; main(sys.argv[1:])"
    peer = subprocess.Popen([sys.executable, "-c", command, "peer", "run", paths[0]], env=silent)

    def says(*words):
        assert peer.poll() is None
        return log.exists() and all(one in log.read_text() for one in words)

    try:
        until(lambda: says("listens on"))
        assert call(address, trusted, *keys.create("stranger")) == grpc.StatusCode.UNAVAILABLE
        assert call(address, trusted, *old) == grpc.StatusCode.UNAVAILABLE
        assert call(address, trusted, *signed_by(second.key, second.certificate)) in (
            grpc.StatusCode.UNAVAILABLE,
            grpc.StatusCode.PERMISSION_DENIED,
        )
        host, port = address.split(":")
        with socket.create_connection((host, int(port))) as plain:
            plain.settimeout(LONG)
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert plain.recv(100) == b""
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError):
            channel.unary_unary(HELLO)(b"", timeout=LONG)
        until(lambda: says("the certificate of peer-2 has expired"))
        until(lambda: says("its certificate is not known here", "its certificate has expired", "it does not speak TLS"))
        assert call(address, trusted, second.key, second.certificate) == grpc.StatusCode.INVALID_ARGUMENT
        unknown = call(address, trusted, second.key, second.certificate, "/other/Call")
        assert unknown == grpc.StatusCode.UNIMPLEMENTED
        peer.send_signal(signal.SIGINT)
        assert peer.wait(LONG) == 130
    finally:
        peer.kill()
        peer.wait()
    assert not played(paths[0])
    assert not list((paths[0] / "run").glob("told/*"))


def test_a_fingerprint_is_that_of_the_certificate_and_not_of_its_text():
    _, pem = keys.create("basel")
    assert keys.digest(pem) == keys.digest(pem.replace(b"\n", b"\r\n"))
    assert len(keys.fingerprint(pem).split()) == 16


@pytest.mark.parametrize(("begins", "words"), [(-9, "expired on"), (9, "not valid before")])
def test_certificates_that_are_not_valid_today(begins, words):
    _, pem = keys.create("basel", begins=datetime.now(UTC) + timedelta(days=begins), days=2)
    assert words in keys.expired(pem, "here")


def test_keys_are_for_their_owner_alone(tmp_path):
    keys.write(tmp_path, "basel")
    assert (tmp_path / keys.KEY).stat().st_mode & 0o077 == 0
    assert keys.expired((tmp_path / keys.CERTIFICATE).read_bytes(), "here") is None
    assert time.time() < keys.parsed((tmp_path / keys.CERTIFICATE).read_bytes(), "").not_valid_after_utc.timestamp()
