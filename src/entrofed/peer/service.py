"""What a peer answers its neighbours: gRPC with mutual TLS, two calls, bytes in and bytes out.

Only holders of the keys of known certificates get through the handshake, and each is known by the certificate itself:
a neighbour cannot speak in another's name, nor sign certificates for others.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import grpc

from entrofed.errors import ConfigError, DataError
from entrofed.peer import keys
from entrofed.peer.config import Neighbour, PeerFolder
from entrofed.peer.limits import AT_A_TIME, Limit, Meter, TooMuchError
from entrofed.peer.outbox import Outbox
from entrofed.peer.wire import SMALL, Arrays, Ask, Hello, unframe

log = logging.getLogger("entrofed")

HELLO, MODEL = "/entrofed.Peer/Hello", "/entrofed.Peer/Model"
OPTIONS = (
    ("grpc.so_reuseport", 0),  # a second process on the same port is an error
    ("grpc.max_receive_message_length", SMALL),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_concurrent_streams", 4 * AT_A_TIME),
    ("grpc.max_metadata_size", 1 << 14),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)
MAX_WAIT = 30.0
"""Seconds that an answer is held back, at most."""


class Local(Protocol):
    """What the service asks its own peer."""

    def hello(self) -> bytes:
        """Who this peer is."""
        ...

    def introduced(self, number: int, hello: Hello, facts: Arrays) -> None:
        """A neighbour has said who it is; a DataError if it cannot be talked to."""
        ...

    def lost(self, number: int, receiver: int) -> bool:
        """Whether what this peer sends to a neighbour in a round is lost on the way, on purpose."""
        ...


class Service(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers neighbours while the peer trains."""

    def __init__(self, folder: PeerFolder, local: Local, outbox: Outbox, meter: Meter) -> None:
        self._run, self._listen = folder.section.run, folder.section.listen
        self._local, self._outbox, self._meter = local, outbox, meter
        self._known = {neighbour.digest: neighbour for neighbour in folder.neighbours}
        self._limits = {neighbour.number: Limit() for neighbour in folder.neighbours}
        self.asked: dict[int, int] = {}
        """The last round that each neighbour has asked for."""
        self.contact: dict[int, float] = {}
        """When each neighbour called last, on the monotonic clock."""
        self.refused: dict[int, int] = {}
        """Messages of each neighbour that were too many."""
        self._methods: Mapping[str, Callable[[Neighbour, bytes, Any], bytes]] = {
            HELLO: self._hello,
            MODEL: self._model,
        }
        threads = AT_A_TIME * len(self._known) + 2
        self._server = grpc.server(
            ThreadPoolExecutor(threads, "answers"),
            handlers=(self,),
            options=OPTIONS,
            maximum_concurrent_rpcs=4 * threads,
        )
        try:
            self._server.add_secure_port(self._listen, _credentials(folder.key, folder.certificate, folder.neighbours))
        except RuntimeError:
            raise ConfigError(
                f"listen = {self._listen!r}: the address cannot be used; another process may have it, or it is not "
                "one of this machine"
            ) from None

    def start(self) -> None:
        """Answer from now on."""
        self._server.start()

    def stop(self) -> None:
        """No more answers."""
        self._server.stop(grace=0.5).wait()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """The handler of a call; gRPC calls it."""
        method = self._methods.get(handler_call_details.method)
        if method is None:
            return None

        def answer(raw: bytes, context: Any) -> bytes:
            neighbour = self._caller(context)
            try:
                with self._limits[neighbour.number].one():
                    self.contact[neighbour.number] = time.monotonic()
                    found = method(neighbour, raw, context)
            except TooMuchError as error:
                self.refused[neighbour.number] = self.refused.get(neighbour.number, 0) + 1
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            except DataError as error:
                log.warning("a message of %s is refused: %s", neighbour.name, error)
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error)[:500])
            self._meter.count(up=len(found), down=len(raw))
            return found

        return grpc.unary_unary_rpc_method_handler(answer)

    def _caller(self, context: Any) -> Neighbour:
        """By the certificate of the connection."""
        (pem,) = context.auth_context().get("x509_pem_cert", [b""])
        neighbour = self._known.get(keys.digest(pem)) if pem else None
        if neighbour is None:
            log.warning("a message from %s is refused: its certificate is not known here", context.peer())
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "your certificate is not known here")
            raise AssertionError  # abort raises
        return neighbour

    def _hello(self, neighbour: Neighbour, raw: bytes, context: Any) -> bytes:
        hello, facts = unframe(raw, Hello)
        self._local.introduced(neighbour.number, hello, facts)
        return self._local.hello()

    def _model(self, neighbour: Neighbour, raw: bytes, context: Any) -> bytes:
        ask, _ = unframe(raw, Ask)
        if ask.run != self._run:
            raise DataError(f"it asks for run {ask.run!r}, and this is {self._run!r}")
        self.asked[neighbour.number] = max(ask.round, self.asked.get(neighbour.number, 0))
        self._outbox.wait(ask.round, min(ask.wait, MAX_WAIT), context.is_active)
        number, message = self._outbox.answer(ask.round, min(ask.oldest, ask.round))
        entry = self._outbox.of(number)
        if entry is not None and entry.update is not None:
            if ask.bare and number == ask.round:
                return self._outbox.none(number)
            if number <= ask.round and self._local.lost(number, neighbour.number):
                return self._outbox.none(number)
        return message


def _credentials(key: bytes, certificate: bytes, known: Sequence[Neighbour]) -> grpc.ServerCredentials:
    roots = b"".join(neighbour.certificate for neighbour in known) or certificate
    return grpc.ssl_server_credentials([(key, certificate)], roots, require_client_auth=True)
