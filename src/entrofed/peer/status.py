"""How a peer and its neighbours are, as far as its own folder says."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from entrofed.experiment.run_folder import RunFolder
from entrofed.peer import keys
from entrofed.peer.config import RUN, PeerFolder
from entrofed.peer.node import STATUS


@dataclass(frozen=True)
class Status:
    """Words about a peer, and a line per neighbour: name, number, address, last model, state, certificate."""

    name: str
    number: int
    words: str
    neighbours: list[list[str]]


def status_of(folder: Path) -> Status:
    """What there is to say of the peer in a folder; it need not be running."""
    peer = PeerFolder(folder)
    section, run = peer.section, RunFolder(folder / RUN)
    rounds = peer.experiment().rounds
    try:
        found = json.loads((run.path / STATUS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = {"neighbours": {}}
    played = len(run.records())
    if not run.exists():
        words = "not started yet"
    elif run.summary() is not None:
        words = f"finished, {played} rounds"
    else:
        ago = time.time() - float(found.get("time", time.time()))
        words = f"{played} of {rounds} rounds; the last ended {ago:,.0f} s ago"
    lines = []
    for neighbour in peer.neighbours:
        now = found["neighbours"].get(neighbour.name, {})
        last = now.get("round", -1)
        state = "not met yet" if not now else "there" if not now["misses"] else f"silent for {now['misses']} deadlines"
        state += f"; {now['words'][:80]}" if now.get("words") else ""
        state += f"; {now['too_many']} messages too many" if now.get("too_many") else ""
        lines.append(
            [
                neighbour.name,
                str(neighbour.number),
                neighbour.address,
                "none" if last < 0 else f"round {last + 1}",
                state,
                keys.expired(neighbour.certificate, neighbour.name) or "valid",
            ]
        )
    return Status(section.name, section.number, words, lines)
