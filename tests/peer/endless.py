"""A neighbour that offers far more than anybody can hold: HTTP/2 by hand, as no gRPC server would speak it."""

import socket
import ssl
import threading

DATA, HEADERS, RESET, SETTINGS, PING, WINDOW = 0x0, 0x1, 0x3, 0x4, 0x6, 0x8
PREFACE = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
BEGIN = b"\x88\x40\x0ccontent-type\x10application/grpc"
"""Status 200, and the type."""
END = b"\x40\x0bgrpc-status\x010"


def frame(kind, stream, payload=b"", flags=0):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


class Endless:
    """Introduces itself with ``hello``; then announces ``announced`` bytes, and sends as many as it is let.

    ``each``: bytes of a message; without it, all that is announced is one.
    """

    def __init__(self, folder, hello, announced, each=None):
        self._hello, self.announced, self._each = hello, announced, each or announced
        self.sent = self.questions = 0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder.path / "certificate.pem", folder.path / "key.pem")
        self._context.set_alpn_protocols(["h2"])
        host, port = folder.section.listen.split(":")
        self._door = socket.create_server((host, int(port)))

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *problem):
        self._door.close()

    def _accept(self):
        while True:
            try:
                plain, _ = self._door.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain):
        try:
            with self._context.wrap_socket(plain, server_side=True) as connection, connection.makefile("rb") as file:
                file.read(PREFACE)
                connection.sendall(frame(SETTINGS, 0))
                self._talk(connection, file)
        except (OSError, ValueError):
            pass  # it was hung up on, as it should be

    def _talk(self, connection, file):
        window = {0: 65_535}
        initial, asked, open_streams = 65_535, {}, {}
        while head := file.read(9):
            size, kind, flags, stream = (
                int.from_bytes(head[:3], "big"),
                head[3],
                head[4],
                int.from_bytes(head[5:], "big"),
            )
            payload = file.read(size)
            if kind == SETTINGS and not flags & 1:
                for i in range(0, size, 6):
                    if payload[i : i + 2] == b"\x00\x04":
                        initial = int.from_bytes(payload[i + 2 : i + 6], "big")
                connection.sendall(frame(SETTINGS, 0, flags=1))
            elif kind == PING and not flags & 1:
                connection.sendall(frame(PING, 0, payload, 1))
            elif kind == WINDOW:
                window[stream] = window.get(stream, initial) + int.from_bytes(payload, "big")
            elif kind == RESET:
                open_streams.pop(stream, None)
            elif kind == DATA:
                asked[stream] = asked.get(stream, b"") + payload
                connection.sendall(frame(WINDOW, 0, max(size, 1).to_bytes(4, "big")))
                if flags & 1:
                    window.setdefault(stream, initial)
                    connection.sendall(frame(HEADERS, stream, BEGIN, 4))
                    if b'"agreed"' in asked[stream]:
                        said = b"\x00" + len(self._hello).to_bytes(4, "big") + self._hello
                        connection.sendall(frame(DATA, stream, said) + frame(HEADERS, stream, END, 5))
                    else:
                        self.questions += 1
                        open_streams[stream] = 0
            for one in list(open_streams):
                open_streams[one] = self._fill(connection, one, window, open_streams[one])

    def _fill(self, connection, stream, window, done):
        """As much of the message as the other side takes; returns how much of it is out."""
        while done < self.announced and (room := min(window[0], window[stream], 16_384)) > 0:
            place = done % (5 + self._each)
            prefix = (b"\x00" + min(self._each, 2**32 - 1).to_bytes(4, "big"))[place:]
            chunk = prefix or bytes(min(room, self._each + 5 - place))
            connection.sendall(frame(DATA, stream, chunk))
            window[0], window[stream], done = window[0] - len(chunk), window[stream] - len(chunk), done + len(chunk)
            self.sent += len(chunk)
        return done
