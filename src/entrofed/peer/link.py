"""The way to one neighbour: a channel that trusts its certificate alone."""

from threading import Event

import grpc

from entrofed.errors import EntrofedError
from entrofed.peer import keys
from entrofed.peer.config import Neighbour
from entrofed.peer.limits import Meter
from entrofed.peer.wire import SMALL

BACKOFF = 1_000
"""Milliseconds between tries to connect, at most."""


class UnreachableError(EntrofedError):
    """A neighbour that is not there."""


class RefusedError(EntrofedError):
    """A neighbour that does not answer what it is asked, or whose answer is too large."""


class Link:
    """Calls a neighbour; one call at a time can be cancelled from another thread."""

    def __init__(self, neighbour: Neighbour, key: bytes, certificate: bytes, most: int, meter: Meter) -> None:
        self.neighbour, self._meter, self._most = neighbour, meter, most
        options = [
            ("grpc.ssl_target_name_override", keys.HOST),
            ("grpc.max_receive_message_length", most),
            ("grpc.max_send_message_length", SMALL),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 5_000),  # the time that a connection may take
            ("grpc.max_reconnect_backoff_ms", BACKOFF),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.enable_http_proxy", 0),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        credentials = grpc.ssl_channel_credentials(neighbour.certificate, key, certificate)
        self._channel = grpc.secure_channel(neighbour.address, credentials, options)
        self._pending: grpc.Future | None = None

    def call(self, method: str, payload: bytes, seconds: float, stop: Event | None = None) -> bytes:
        """What the neighbour answers within so many seconds, unless ``stop`` is set."""
        self._pending = future = self._channel.unary_unary(method).future(payload, timeout=seconds)
        if stop is not None and stop.is_set():  # set before :meth:`cancel` is called, so one of the two sees the other
            future.cancel()
        try:
            found: bytes = future.result()
        except grpc.FutureCancelledError:
            raise UnreachableError("nobody waits for it any more") from None
        except grpc.RpcError as error:
            words = f"{error.code().name.lower()}: {error.details()}"
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise UnreachableError(words) from None
            raise RefusedError(words) from None
        self._meter.count(up=len(payload), down=len(found))
        return found

    def cancel(self) -> None:
        """Give up the call that waits for its answer."""
        if self._pending is not None:
            self._pending.cancel()

    def close(self) -> None:
        """No more calls."""
        self._channel.close()
