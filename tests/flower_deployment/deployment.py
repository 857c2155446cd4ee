"""A federation of real processes on this machine: a SuperLink, SuperNodes, and the command ``flwr``."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

PATIENCE = 180.0
"""Seconds that anything may take; the machine may be busy."""


def until(what: str, seen: Callable[[], Any], patience: float = PATIENCE, pause: float = 0.2) -> Any:
    """Look until there is something to see."""
    end = time.monotonic() + patience
    while not (found := seen()):
        assert time.monotonic() < end, f"not within {patience:.0f} s: {what}"
        time.sleep(pause)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def lines(path: Path) -> list[dict[str, Any]]:
    """The records of a run so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Deployment:
    """Processes in one folder, which their environment names: so all of them are found again, and ended."""

    def __init__(self, folder: Path, keys: Path | None = None) -> None:
        self.folder, self.keys, self.port = folder, keys, free_port()
        self.home, self.started = folder / "home", dict[str, subprocess.Popen[bytes]]()
        self.home.mkdir(parents=True)
        self.address = f"127.0.0.1:{self.port}"
        secured = "insecure = true" if keys is None else f'root-certificates = "{keys / "ca.crt"}"'
        config = f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{self.address}"\n{secured}\n'
        (self.home / "config.toml").write_text(config)
        self.environment = os.environ | {
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONWARNINGS": "ignore",
        }

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a process that writes to NAME.log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        self.started[name] = process
        return process

    def log(self, name: str) -> str:
        """What a process wrote."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def link(self) -> None:
        """Start the SuperLink, and wait until it listens."""
        security = ["--insecure"]
        if self.keys is not None:
            own = {"ca-certfile": "ca.crt", "certfile": "server.pem", "keyfile": "server.key"}
            security = [word for flag, file in own.items() for word in (f"--ssl-{flag}", str(self.keys / file))]
            security.append("--enable-supernode-auth")
        where = ["--host", "127.0.0.1", "--port", str(self.port), "--database", str(self.folder / "state.db")]
        process = self.start("link", "flower-superlink", *security, *where)
        until("the SuperLink listens", lambda: "Uvicorn running" in self.log("link") or process.poll() is not None)
        assert process.poll() is None, self.log("link")

    def node(
        self, name: str, config: str, *, key: Path | None = None, authority: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a SuperNode."""
        security = (
            ["--insecure"] if self.keys is None else ["--root-certificates", str(authority or self.keys / "ca.crt")]
        )
        security += [] if key is None else ["--auth-supernode-private-key", str(key)]
        return self.start(
            name,
            *("flower-supernode", *security, "--superlink", self.address, "--port", str(free_port())),
            *("--max-retries", "20", "--node-config", config),
        )

    def flwr(self, *words: str) -> dict[str, Any]:
        """A command of ``flwr``, answered as JSON."""
        command = ["flwr", *words, "--format", "json"]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=PATIENCE
        )
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            raise AssertionError(f"{command}: {done.stdout}{done.stderr}") from None
        return answer

    def nodes(self) -> list[str]:
        """What the SuperLink thinks of every SuperNode it has seen: ``online``, ``offline`` ..."""
        return [str(node["status"]) for node in self.flwr("supernode", "list", "here")["nodes"]]

    def submit(self, app: Path, **config: object) -> str:
        """Start a run; returns its id."""
        values = " ".join(f"{key.replace('_', '-')}={json.dumps(value)}" for key, value in config.items())
        answer = self.flwr("run", str(app), "here", "--run-config", values)
        assert answer["success"], answer
        until("the ServerApp runs", lambda: self.processes("flwr-serverapp"))
        return str(answer["run-id"])

    def finish(self, run: str, patience: float = PATIENCE) -> str:
        """Wait until a run has ended, the only one there is; returns how. To ask ``flwr`` all the time is slow."""

        def ended() -> str | None:
            (found,) = self.flwr("ls", "here", "--run-id", run)["runs"]
            return str(found["status"]) if found["status"].startswith("finished") else None

        until(f"the ServerApp of run {run} has ended", lambda: not self.processes("flwr-serverapp"), patience)
        return str(until(f"run {run} has ended", ended, pause=1.0))

    def processes(self, name: str = "") -> list[int]:
        """Processes of this deployment whose command line has that word."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended meanwhile, or is another user's
                ours = f"FLWR_HOME={self.home}".encode() in (folder / "environ").read_bytes().split(b"\0")
                if ours and name.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
        return found

    def stop(self) -> None:
        """End all processes, whatever state they are in."""

        def ended() -> bool:
            for process in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            return not self.processes()

        until("all processes have ended", ended, 30.0)
        for process in self.started.values():
            process.wait()

    def show(self) -> None:
        """Print the ends of the logs."""
        for path in sorted(self.folder.glob("*.log")):
            print(f"----- {path.name}\n{self.log(path.stem)[-6000:]}")  # noqa: T201
