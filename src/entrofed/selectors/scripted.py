"""Cohorts that were fixed beforehand."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Sees, Selector
from entrofed.core.types import ClientTable, PartState, Selection
from entrofed.errors import ConfigError


@dataclass(frozen=True)
class Scripted(Selector):
    """The listed cohorts, one per round: to replay another run or another program's.

    Whoever of them is not there is left out; the size of the cohort is the script's.
    """

    name: ClassVar[str] = "scripted"
    sees: ClassVar[Sees] = "sum"

    cohorts: tuple[tuple[int, ...], ...] = ((0,),)

    def __post_init__(self) -> None:
        for number, cohort in enumerate(self.cohorts):
            if len(set(cohort)) < len(cohort) or min(cohort, default=0) < 0:
                raise ConfigError(f"selector 'scripted': cohort {number} = {list(cohort)} must be different clients")

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """No round was played yet; a client that does not exist is found out now."""
        strangers = {client for cohort in self.cohorts for client in cohort} - set(participants.tolist())
        if strangers:
            raise ConfigError(
                f"selector 'scripted': client {min(strangers)} is not one of the {len(participants)} that take part"
            )
        return {"played": np.zeros((), np.int64)}

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """The next cohort of the list."""
        played = int(state["played"])
        if played >= len(self.cohorts):
            raise ConfigError(
                f"selector 'scripted' lists {len(self.cohorts)} cohorts, and this is round {played + 1}; "
                "lower 'rounds' or list more"
            )
        there = set(among.tolist())
        return Selection([c for c in self.cohorts[played] if c in there], {"played": np.array(played + 1)})
