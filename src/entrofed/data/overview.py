"""Who holds what, in a few lines and as a table for notebooks."""

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from entrofed.data.dataset import Dataset
from entrofed.info.entropy import entropy_of_counts

SHOWN = 30
"""Clients that a notebook shows."""


def in_words(data: Dataset, label_counts: NDArray[np.int64], participants: int) -> str:
    """Clients, samples, classes and how unequal they are; ``label_counts`` by client and class."""
    sizes = label_counts.sum(axis=1)
    held = (label_counts > 0).sum(axis=1)
    alone = entropy_of_counts(label_counts[sizes > 0], base="bits").mean()
    pooled = float(entropy_of_counts(label_counts.sum(axis=0), base="bits"))
    shape = "x".join(str(side) for side in data.train_x.shape[1:])
    tested = [f"{len(data.test_y):,} test samples", f"{data.validation_size:,} for validation"]
    taking_part = f", {participants:,} of them take part" if participants < len(sizes) else ""
    empty = f", {(sizes == 0).sum():,} have none" if (sizes == 0).any() else ""
    return "\n".join(
        [
            f"{data.name}: {data.kind} data of shape {shape}, {len(data.classes):,} classes, "
            + ", ".join(tested if data.validation_size else tested[:1]),
            f"{len(sizes):,} clients{taking_part}",
            f"samples of a client: {sizes.min():,} to {sizes.max():,}, median {np.median(sizes):,.0f}, "
            f"{sizes.sum():,} in all{empty}",
            f"classes of a client: {held.min()} to {held.max()}, mean {held.mean():.1f}",
            f"label entropy: {alone:.2f} bits in a client (mean), {pooled:.2f} over all",
        ]
    )


def html_table(classes: Sequence[str], label_counts: NDArray[np.int64], names: Sequence[str]) -> str:
    """A row per client (the first 30), the darker the more of its samples."""
    head = "".join(f"<th>{escape(name)}</th>" for name in classes)
    rows = []
    for k, counts in enumerate(label_counts[:SHOWN]):
        shares = counts / max(int(counts.sum()), 1)
        cells = "".join(
            f'<td style="background:rgba(31,119,180,{share:.2f})">{count}</td>'
            for count, share in zip(counts, shares, strict=True)
        )
        rows.append(f"<tr><th>{escape(names[k]) if names else k}</th>{cells}</tr>")
    more = f"<p>and {len(label_counts) - SHOWN:,} more clients</p>" if len(label_counts) > SHOWN else ""
    return f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>{more}"
