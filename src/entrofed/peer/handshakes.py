"""What gRPC says of refused connections goes to the log.

gRPC reports failed handshakes (an unknown or expired certificate, a connection without TLS) nowhere but on the
process's standard error, and not even there if ``GRPC_VERBOSITY`` says so when it is imported (Flower sets it to
``error``). Within :func:`logged_handshakes` these lines become warnings; all others pass.
"""

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

log = logging.getLogger("entrofed")

FAILED = re.compile(r"Handshake failed with error (?:SSL_ERROR_SSL: error:\w+:SSL routines:OPENSSL_internal:)?(.*)")
WORDS = {
    "certificate has expired": "its certificate has expired",
    "self signed certificate": "its certificate is not known here",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "HTTP_REQUEST": "it does not speak TLS",
}
MOST = 1000
"""Refused connections that are logged; more would fill the disk."""


def refusal(line: str) -> str | None:
    """Why a connection was refused, if that is what a line says.

    >>> refusal("I1117 1:2 3 ssl.cc:2] Handshake failed with error SSL_ERROR_SSL: error:1:SSL routines:"
    ...         "OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: certificate has expired")
    'its certificate has expired'
    """
    found = FAILED.search(line)
    if found is None:
        return None
    return next((words for key, words in WORDS.items() if key in found[1]), found[1][:200])


@contextmanager
def logged_handshakes() -> Iterator[None]:
    """Within the block, refused connections are warnings in the log. For a process that is nothing but a peer.

    gRPC must not have been imported before.
    """
    os.environ.pop("GRPC_VERBOSITY", None)
    sys.stderr.flush()
    shown = os.dup(2)
    out, into = os.pipe()
    os.dup2(into, 2)
    os.close(into)

    def forward() -> None:
        said = 0
        with os.fdopen(out, "rb") as lines:
            for raw in lines:
                why = refusal(raw.decode(errors="replace"))
                if why is None:
                    os.write(shown, raw)
                elif said < MOST:
                    said += 1
                    log.warning("a connection was refused: %s%s", why, "; no more are logged" if said == MOST else "")

    reader = Thread(target=forward, name="handshakes", daemon=True)
    reader.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(shown, 2)
        reader.join(timeout=2.0)
        os.close(shown)
