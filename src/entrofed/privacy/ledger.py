"""What was released of labels before, whatever the run was called: a client's noise is drawn once, and epsilons add up.

The ledger lies in the user's data folder (``released.sqlite``) and is written before a count leaves a client. A client
is known by what it holds (SHA-256 of its examples and of the counts it tells): it releases the same noised counts
again, which costs nothing, wherever epsilon and neighbours are the same. Otherwise noise is drawn anew. Of one record
all releases of its dataset then tell no more than ``sum epsilon`` over the draws (sequential composition: in each draw
a record is with one client at most), also if the dataset was dealt to other clients in between.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.errors import DataError
from entrofed.files import data_folder
from entrofed.privacy.counts import Neighbours, Release, release

PATIENCE = 60.0
"""Seconds to wait for another run that is drawing."""
TABLES = """
CREATE TABLE IF NOT EXISTS draws (id INTEGER PRIMARY KEY, dataset TEXT, epsilon REAL, neighbours TEXT, run TEXT);
CREATE TABLE IF NOT EXISTS counts (client TEXT, draw INTEGER REFERENCES draws, counts TEXT, PRIMARY KEY (client, draw));
"""
KEPT = """
SELECT counts FROM counts JOIN draws ON draw = id WHERE client = ? AND epsilon = ? AND neighbours = ? ORDER BY draw
"""


def client_digests(
    examples: Sequence[NDArray[Any]], shards: Sequence[NDArray[np.int64]], counts: NDArray[np.int64]
) -> list[str]:
    """What each client is known by: the SHA-256 of its examples, in the dataset's order, and of the counts it tells.

    ``examples``: samples and labels, of which each client holds some rows. Clients that hold the same are numbered.
    """
    found, alike = [], Counter[str]()
    for shard, row in zip(shards, counts, strict=True):
        rows = np.sort(shard)
        digest = sha256(str(row.tolist()).encode())
        for array in examples:
            digest.update(np.ascontiguousarray(array[rows]).data)
        found.append(f"{digest.hexdigest()} {alike[digest.hexdigest()]}")
        alike[digest.hexdigest()] += 1
    return found


def release_listed(
    dataset: str, clients: Sequence[str], counts: NDArray[np.int64], epsilon: float, neighbours: Neighbours, run: str
) -> Release:
    """Counts with the noise that these clients have drawn before, and for the others with noise drawn now.

    Args:
        dataset: Its name.
        clients: What each is known by.
        counts: ``[client, class]``.
        epsilon: Of one draw.
        neighbours: See :mod:`entrofed.privacy.counts`.
        run: What the noise is drawn for, as a note.
    """
    with _ledger() as ledger:
        total = "SELECT COALESCE(SUM(epsilon), 0) FROM draws WHERE dataset = ?"
        before = float(ledger.execute(total, (dataset,)).fetchone()[0])
        kept = [ledger.execute(KEPT, (client, epsilon, neighbours)).fetchone() for client in clients]
        fresh = release(counts, epsilon, neighbours)
        new = [i for i, row in enumerate(kept) if row is None]
        found = np.array([fresh.counts[i] if row is None else json.loads(row[0]) for i, row in enumerate(kept)])
        if new:
            entry = (dataset, epsilon, neighbours, run)
            made = ledger.execute("INSERT INTO draws (dataset, epsilon, neighbours, run) VALUES (?, ?, ?, ?)", entry)
            rows = [(clients[i], made.lastrowid, json.dumps(found[i].tolist())) for i in new]
            ledger.executemany("INSERT INTO counts VALUES (?, ?, ?)", rows)
    spent = {"epsilon_before": before, "epsilon_in_all": before + (epsilon if new else 0.0), "drawn": len(new)}
    return replace(fresh, counts=found.reshape(counts.shape), spent={**fresh.spent, **spent})


@contextmanager
def _ledger() -> Iterator[sqlite3.Connection]:
    """The ledger, for us alone until what was written is on disk."""
    path = data_folder() / "released.sqlite"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)) as ledger:
            ledger.executescript(f"PRAGMA synchronous = FULL; {TABLES}")
            ledger.execute("BEGIN IMMEDIATE")
            yield ledger
            ledger.execute("COMMIT")
    except (sqlite3.Error, OSError, ValueError) as error:
        raise _unknown(path, error) from None


def _unknown(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{path}: the ledger of what was released before cannot be used ({error}), so it is not known what was spent. "
        "Repair it, or move it away, which forgets what was spent; or set privacy.simulate = true to try things out"
    )
