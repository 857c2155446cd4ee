"""A neighbour with a valid key that does what it should not."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np

from entrofed.peer import keys
from entrofed.peer.agreement import agreed_on
from entrofed.peer.config import PeerFolder
from entrofed.peer.node import setup_of
from entrofed.peer.service import HELLO, MODEL
from entrofed.peer.wire import COUNTERS, VALUES, Answer, Ask, Hello, frame, unframe


class Hostile(grpc.GenericRpcHandler):
    """Introduces itself as it should, and answers whatever ``behaviour`` makes of a question."""

    def __init__(self, path, behaviour, hello=None):
        self.folder, self._behaviour = PeerFolder(path), behaviour
        self.setup = setup_of(self.folder)
        section = self.folder.section
        said = hello or Hello(
            run=section.run, number=section.number, agreed=agreed_on(self.setup, own_data=False), examples=10, at=0
        )
        self._hello = frame(said)
        self.asked = []
        roots = b"".join(neighbour.certificate for neighbour in self.folder.neighbours)
        credentials = grpc.ssl_server_credentials([(self.folder.key, self.folder.certificate)], roots, True)
        self._server = grpc.server(
            ThreadPoolExecutor(8), handlers=(self,), options=[("grpc.max_send_message_length", -1)]
        )
        self._server.add_secure_port(section.listen, credentials)

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *problem):
        self._server.stop(0).wait()

    def service(self, handler_call_details):
        def answer(raw, context):
            if handler_call_details.method == HELLO:
                return self._hello
            ask, _ = unframe(raw, Ask)
            self.asked.append(ask.round)
            if ask.round >= self.setup.experiment.rounds:  # they are through: so is this one, or they wait for it
                self.ask(self.setup.experiment.rounds)
            return self._behaviour(self, ask)

        return grpc.unary_unary_rpc_method_handler(answer)

    def ask(self, number):
        """Ask the neighbours for the model of a round: after the last, that this peer needs nothing more."""
        ask = frame(Ask(run=self.folder.section.run, round=number, oldest=number, wait=0.0))
        for known in self.folder.neighbours:
            with self.channel(known.address, known.certificate) as channel:
                channel.unary_unary(MODEL).future(ask, timeout=2).exception()

    def model(self, ask, values=None, counters=None, **changes):
        """A model that could be used, but for the changes."""
        layout = self.setup.layout
        header = {"run": ask.run, "kind": "model", "round": ask.round, "examples": 10, "steps": 2, **changes}
        arrays = {
            VALUES: np.zeros(layout.floats, np.float32) if values is None else values,
            COUNTERS: np.zeros(layout.counters, np.int64) if counters is None else counters,
        }
        return frame(Answer.model_construct(**{**Answer(run="", kind="none", round=0).model_dump(), **header}), arrays)

    def channel(self, address, certificate, key=None):
        """A connection to a victim, with this peer's key or another."""
        private, own = key or (self.folder.key, self.folder.certificate)
        return grpc.secure_channel(
            address,
            grpc.ssl_channel_credentials(certificate, private, own),
            [("grpc.ssl_target_name_override", keys.HOST), ("grpc.initial_reconnect_backoff_ms", 100)],
        )

    def flood(self, neighbour, stop, sent):
        """As many questions as it can, until it is stopped; ``sent`` counts what came of them."""
        ask = frame(Ask(run=self.folder.section.run, round=0, oldest=0, wait=30.0))

        def go():
            with self.channel(neighbour.address, neighbour.certificate) as channel:
                grpc.channel_ready_future(channel).result(timeout=30)
                call = channel.unary_unary(MODEL)
                while not stop.is_set():
                    pending = [call.future(ask, timeout=5) for _ in range(50)]
                    for one in pending:
                        error = one.exception()
                        word = "answered" if error is None else error.code().name
                        sent[word] = sent.get(word, 0) + 1
                    time.sleep(0.02)

        thread = threading.Thread(target=go, daemon=True)
        thread.start()
        return thread
