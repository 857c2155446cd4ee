"""Offline runs for Weights & Biases (the extra ``wandb``): folders ``OUT/wandb/offline-run-*``; no network.

``wandb sync FOLDER`` sends one on, if that is wanted. The project is ``entrofed``, the group the experiment; the
configuration goes along as it is, each round is a step, and the summary is the run's own. The id is made from the
run's name and seed: a new export of a run replaces the folder.
"""

import shutil
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from entrofed.experiment.run_folder import RunFolder
from entrofed.export.optional import environment, needed
from entrofed.export.runs import label, scalars


def to_wandb(runs: list[RunFolder], output: Path) -> list[Path]:
    """Write an offline run for each run."""
    with (
        TemporaryDirectory() as away,  # its logs, and the user's settings that it would read
        environment(WANDB_ERROR_REPORTING="false", WANDB_CACHE_DIR=away, WANDB_CONFIG_DIR=away),
    ):
        wandb = needed("wandb", "wandb")
        quiet = wandb.Settings(
            mode="offline",
            root_dir=str(output.resolve()),
            silent=True,
            console="off",
            disable_git=True,
            disable_code=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
        )
        paths = [_export(wandb, run, output, quiet) for run in runs]
        if wandb.run is None:  # nobody else in this process logs to it
            wandb.teardown()
    return paths


def _export(wandb: Any, run: RunFolder, output: Path, quiet: Any) -> Path:
    experiment, summary = run.experiment(), run.summary()
    name = label(experiment)
    key = blake2b(name.encode(), digest_size=8).hexdigest()
    for old in (output / "wandb").glob(f"offline-run-*-{key}"):
        shutil.rmtree(old)
    one = wandb.init(
        project="entrofed",
        group=experiment.name,
        name=name,
        id=key,
        config=experiment.model_dump(mode="json", exclude_none=True),
        settings=quiet,
        reinit="create_new",
    )
    for record in run.records():
        one.log(scalars(record), step=record.round)
    one.summary.update({metric: value for metric, value in (summary or {}).items() if value is not None})
    one.finish()
    return Path(one.dir).parent
