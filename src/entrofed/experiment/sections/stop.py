"""``[stop]``: when a run ends before its last round."""

from typing import Literal

from pydantic import Field, ValidationInfo, model_validator

from entrofed.experiment.sections.section import Section, was_run


class StopSection(Section):
    """When a run ends before its last round.

    See :mod:`entrofed.experiment.judge`.
    """

    target: float | None = None
    """The accuracy at which it ends."""
    patience: int | None = Field(None, ge=1)
    """Rounds without a better accuracy after which it ends."""
    on: Literal["holdout", "validation", "test"] | None = None
    """Whose accuracy: by default the clients' held-out data, or else the validation set."""

    @model_validator(mode="after")
    def _sensible(self, info: ValidationInfo) -> "StopSection":
        if was_run(info):
            return self
        if self.target is None and self.patience is None:
            raise ValueError("stop needs a target (stop.target = 0.9), a patience (stop.patience = 20 rounds), or both")
        if self.target is not None and not 0 < self.target <= 1:
            raise ValueError(f"stop.target = {self.target:g}: an accuracy above 0 and up to 1 is expected; 90 % is 0.9")
        return self
