"""The folders of several peers of one run, read as one run: the nodes, their consensus, their mixing as measured.

Each peer keeps its own folder; nobody sees the whole until the peers put theirs side by side.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.core.gossip import MAX_NODES_FOR_GAP
from entrofed.core.graphs import mixing_matrix, spectral_gap
from entrofed.core.records import PeerRecord, Refusal, RoundRecord
from entrofed.core.round import PeersEvaluated
from entrofed.experiment.config import Experiment
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.summary import summarize
from entrofed.peer.sketch import read as read_sketches
from entrofed.privacy.counts import Release

PEER, SKETCHES = "peer.json", "sketches.f32"


def peer_facts(folder: RunFolder) -> dict[str, Any] | None:
    """Which peer of which run a folder belongs to; None if it is no peer's."""
    try:
        found = dict(json.loads((folder.path / PEER).read_text(encoding="utf-8")))
        return {"run": str(found["run"]), "number": int(found["number"]), "nodes": int(found["nodes"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def whole_runs(folders: Sequence[RunFolder]) -> list[RunFolder]:
    """The same runs in their order, but those of several peers of a run as one."""
    facts = {folder: peer_facts(folder) for folder in folders}
    runs: dict[str, dict[int, RunFolder]] = {}
    for folder, about in facts.items():
        if about is not None:
            runs.setdefault(about["run"], {})[about["number"]] = folder
    found: dict[RunFolder, None] = {}
    for folder, about in facts.items():
        members = {} if about is None else runs[about["run"]]
        found[folder if len(members) < 2 else PeerRuns.of(list(members.values()))] = None
    return list(found)


@dataclass(frozen=True)
class PeerRuns(RunFolder):
    """One run in several folders; ``path`` is where they lie."""

    members: tuple[RunFolder, ...] = ()

    @classmethod
    def of(cls, members: Sequence[RunFolder]) -> "PeerRuns":
        """By number."""
        ordered = sorted(members, key=lambda folder: (peer_facts(folder) or {})["number"])
        above = os.path.commonpath([folder.path.resolve() for folder in ordered])
        return cls(Path(above) / "peers", tuple(ordered))

    @cached_property
    def _numbers(self) -> list[int]:
        return [(peer_facts(folder) or {})["number"] for folder in self.members]

    @cached_property
    def _nodes(self) -> int:
        nodes: list[int] = [(peer_facts(folder) or {})["nodes"] for folder in self.members]
        return max(*nodes, max(self._numbers) + 1)

    def exists(self) -> bool:
        """There are at least two."""
        return True

    def experiment(self) -> Experiment:
        """As the first of them has it."""
        return self.members[0].experiment()

    def method(self) -> dict[str, Any] | None:
        """The same for all."""
        return self.members[0].method()

    def released(self) -> Release | None:
        """What it cost the first of them; the same for all."""
        return self.members[0].released()

    def federation_facts(self) -> dict[str, Any] | None:
        """Who holds what, where each says what it holds itself."""
        found = [folder.federation_facts() for folder in self.members]
        if any(one is None for one in found):
            return None
        counts = np.zeros((self._nodes, len((found[0] or {})["classes"])), np.int64)
        for number, one in zip(self._numbers, found, strict=True):
            counts[number] = (one or {})["label_counts"][number]
        return {**(found[0] or {}), "participants": self._numbers, "label_counts": counts.tolist()}

    def summary(self) -> dict[str, Any] | None:
        """Of all nodes, once all have finished."""
        found = [folder.summary() for folder in self.members]
        if any(one is None for one in found):
            return None
        return {**summarize(self.records()), "privacy": (found[0] or {}).get("privacy")}

    def records(self) -> list[RoundRecord]:
        """Round by round, as far as any of them has come; who has not, or was not there, kept its model."""
        known = {number: folder.records() for number, folder in zip(self._numbers, self.members, strict=True)}
        sketches = [read_sketches(folder.path / SKETCHES) for folder in self.members]
        last = max(len(records) for records in known.values())
        return [
            self._joined(
                number,
                {node: records[number] for node, records in known.items() if number < len(records)},
                [rows[number] for rows in sketches if number < len(rows)],
            )
            for number in range(last)
        ]

    def _joined(self, number: int, found: dict[int, RoundRecord], sketches: list[NDArray[np.float32]]) -> RoundRecord:
        alone = {node: PeerRecord(node, [node], [1.0]) for node in range(self._nodes)}
        peers = [found[node].peers[0] if node in found else peer for node, peer in alone.items()]
        complete = len(self.members) == self._nodes
        gap = None
        if complete and self._nodes <= MAX_NODES_FOR_GAP:
            gap = spectral_gap(
                mixing_matrix([np.array(peer.senders) for peer in peers], [np.array(peer.weights) for peer in peers])
            )
        tests = [record.test for record in found.values() if record.test is not None]
        losses = [record.train_loss for record in found.values() if record.train_loss is not None]
        phases = dict.fromkeys(phase for record in found.values() for phase in record.seconds)
        own = [client for node, record in found.items() for client in record.clients if client.client == node]
        return RoundRecord(
            round=number,
            lr=next((record.lr for record in found.values()), None),
            available=len(found),
            cohort=[client.client for client in own],
            clients=own,
            refused=[
                Refusal(refusal.client, refusal.reason) for record in found.values() for refusal in record.refused
            ],
            skipped=all(record.skipped for record in found.values()),
            effective_cohort=float(np.mean([record.effective_cohort for record in found.values()])),
            train_loss=float(np.mean(losses)) if losses else None,
            bytes_up=sum(record.bytes_up for record in found.values()),
            test=PeersEvaluated(tests).mean,
            peers=peers,
            consensus=_distance(sketches) if len(sketches) == len(self.members) else None,
            spectral_gap=gap,
            seconds={phase: max(record.seconds.get(phase, 0.0) for record in found.values()) for phase in phases},
        )


def _distance(sketches: Sequence[NDArray[np.float32]]) -> float | None:
    """The mean distance of the models from their mean, from their sketches; None if one was not there."""
    rows = np.array(sketches, np.float64)
    if not np.isfinite(rows).all():
        return None
    return float(np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1)).mean())
