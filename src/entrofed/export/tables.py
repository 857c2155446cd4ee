"""All given runs as two flat tables; the formats ``parquet`` and ``csv`` write them.

``rounds``: a row for each run and round.

=====================================  =================================================================
experiment, seed, round                which; rounds count from 0, as in the records of a run
lr                                     learning rate of the round
available, cohort_size                 clients that could be chosen, and that were
cohort_entropy                         entropy of the pooled labels of those whose updates count, bits
effective_cohort                       1 / sum of the squared weights, clients
refused                                updates that were not used
skipped                                whether the model stayed because of too few updates
train_loss                             mean over the clients
test_*                                 loss, accuracy, macro_f1, weighted_f1, weighted_precision,
                                       weighted_recall on the test part
id_*                                   the same on what the cohort's clients held out
bytes_up, bytes_down                   traffic
consensus, spectral_gap                of peers in a topology
alignment_*                            agreement of the step with the gradient, where it was measured
seconds_*                              select, train, admit, weigh, aggregate, evaluate: phases;
                                       clients: training time summed over clients
test_NAME, id_NAME                     metrics that one of the experiments asks for, by name
judged                                 accuracy that may stop a run, if one of the runs has it
virtual_seconds                        how long the round takes on a virtual clock, if a run has one
=====================================  =================================================================

``clients``: a row for each run, round and client whose update was used.

=====================================  =================================================================
experiment, seed, round, client        which
weight                                 its share of the new model; of peers, that of its own model
examples, steps                        what it trained on, and for how long
train_loss, train_loss_last_epoch      mean over its examples, of all epochs and of the last
loss_terms_*, origin_*                 terms of its loss, and what its weight was made from: those that
                                       occur in one of the runs, by name, as real numbers (true is 1)
=====================================  =================================================================

The columns of ``rounds`` but those of the last three lines, and the named ones of ``clients``, are always there, in
this order. What is missing or not finite is null. Accuracies by class, reasons of a selection and the peers' mixing
weights stay in the run's own records.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from entrofed.core.records import ClientRecord, RoundRecord
from entrofed.experiment.run_folder import RunFolder
from entrofed.tracking.numbers import PATHS, WHOLE, number, numbers

WHICH = {"experiment": pa.string(), "seed": pa.int64(), "round": pa.int64()}
TYPES = {**dict.fromkeys(WHOLE, pa.int64()), "skipped": pa.bool_()}
ROUNDS = pa.schema({**WHICH, **{name: TYPES.get(name, pa.float64()) for name in map("_".join, PATHS)}})
CLIENTS = pa.schema(
    {
        **WHICH,
        "client": pa.int64(),
        "weight": pa.float64(),
        "examples": pa.int64(),
        "steps": pa.int64(),
        "train_loss": pa.float64(),
        "train_loss_last_epoch": pa.float64(),
    }
)
OWN = CLIENTS.names[len(WHICH) :]


def tables(runs: list[RunFolder]) -> dict[str, Any]:
    """The tables ``rounds`` and ``clients`` over all runs, by name."""
    rounds, clients = [ROUNDS.empty_table()], [CLIENTS.empty_table()]
    for run in runs:
        experiment, records = run.experiment(), run.records()
        which = {"experiment": experiment.name, "seed": experiment.seed}
        rows = [{**which, "round": record.round, **numbers(record, "_")} for record in records]
        rounds.append(_with_more(rows, ROUNDS))
        clients.append(_with_more(_clients(which, records), CLIENTS))
    return {"rounds": _joined(rounds, ROUNDS), "clients": _joined(clients, CLIENTS)}


def _with_more(rows: list[dict[str, Any]], schema: Any) -> Any:
    """The rows as a table; columns that the schema does not know are real numbers."""
    more = sorted({name for row in rows for name in row} - set(schema.names))
    return pa.Table.from_pylist(rows, pa.schema([*schema, *(pa.field(name, pa.float64()) for name in more)]))


def _joined(tables: list[Any], schema: Any) -> Any:
    """The tables, one below the other; columns that the schema does not know come last, by name."""
    wide = pa.concat_tables(tables, promote_options="default")
    return wide.select([*schema.names, *sorted(set(wide.column_names) - set(schema.names))])


def _clients(which: dict[str, Any], records: Iterable[RoundRecord]) -> list[dict[str, Any]]:
    return [
        {**which, "round": record.round, **{name: number(getattr(client, name)) for name in OWN}, **_extra(client)}
        for record in records
        for client in record.clients
    ]


def _extra(client: ClientRecord) -> dict[str, float]:
    return {
        f"{kind}_{name}": float(value)
        for kind, table in (("loss_terms", client.loss_terms), ("origin", client.origin))
        for name, inner in table.items()
        if (value := number(inner)) is not None
    }
