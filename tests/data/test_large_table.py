"""A large table is read in batches: memory is that of its features and little more."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

ROWS = 400_000
CODE = """
import resource, sys
import pyarrow.csv, pyarrow.parquet
from entrofed.data.federation import Federation
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
federation = Federation.from_table(sys.argv[1], label="y", client="who")
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
print(grown, (federation.data.train_x.nbytes + federation.data.test_x.nbytes) / 2**20, len(federation.shards))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="units of memory differ")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_memory(tmp_path: Path, ending: str) -> None:
    rng = np.random.default_rng(0)
    columns = {f"n{i}": rng.normal(size=ROWS).round(4) for i in range(12)}
    columns |= {f"c{i}": rng.choice([f"v{k}" for k in range(20)], ROWS) for i in range(4)}
    columns |= {"who": rng.choice(["u", "v", "w"], ROWS), "y": rng.choice(["no", "yes"], ROWS)}
    table, path = pa.table(columns), tmp_path / f"large.{ending}"
    (pyarrow.csv.write_csv if ending == "csv" else pyarrow.parquet.write_table)(table, path)
    done = subprocess.run([sys.executable, "-c", CODE, str(path)], capture_output=True, text=True, check=True)
    grown, features, clients = map(float, done.stdout.split())
    assert (round(features), clients) == (round(ROWS * 92 * 4 / 2**20), 3)
    assert grown < 1.5 * features + 100, f"{grown:.0f} MB for {features:.0f} MB of features"
