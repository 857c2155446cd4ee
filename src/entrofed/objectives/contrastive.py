"""Keep representations near the global model's and away from the client's own last ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.nn.functional import cosine_similarity, cross_entropy

from entrofed.core.params import Params
from entrofed.core.parts import Given, ModelRuntime, Objective
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientData, PartState, Update
from entrofed.errors import ConfigError


@dataclass(frozen=True)
class Contrastive(Objective):
    """Cross entropy plus ``mu`` times the model-contrastive loss.

    ``l = -ln(e^(cos(z, z_g)/T) / (e^(cos(z, z_g)/T) + e^(cos(z, z_p)/T)))``, where z are the representations of a
    sample by the model in training, by the global model and by the client's previous model, the latter two frozen and
    in evaluation mode. A client without a previous model leaves the term out: its gradient would be zero. The
    representation is the projection of a network that has one, else what enters its output layer.
    """

    name: ClassVar[str] = "contrastive"
    reference: ClassVar[str] = "Li, He and Song, MOON, CVPR 2021"
    terms: ClassVar[tuple[str, ...]] = ("cross_entropy", "contrastive")

    mu: float = 1.0
    temperature: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.mu < float("inf") or not 0 < self.temperature < float("inf"):
            raise ConfigError(
                f"objective {self.name!r}: mu = {self.mu} must not be negative, and temperature = {self.temperature} "
                "must be above 0; both finite"
            )

    def check(self, model: torch.nn.Module) -> None:
        """Only a network that shows a representation can be compared."""
        if not hasattr(model, "represent"):
            raise ConfigError(
                f"objective {self.name!r} compares representations, and {type(model).__name__} has no method "
                "'represent' that returns logits and representation; choose another model or add it"
            )

    def begin(self, task: TrainTask, data: ClientData, model: ModelRuntime) -> Callable[[torch.Tensor], Given]:
        """The two frozen models; nothing, if there is no previous one."""
        if not self.mu or "previous" not in task.client_state:
            return lambda x: {}
        previous = Params(task.client_state["previous"], task.client_state["previous_counters"])
        models = {
            "global": model.frozen("global", task.params),
            "previous": model.frozen("previous", previous),
        }

        def represent(x: torch.Tensor) -> Given:
            with torch.no_grad():
                return {name: model.represent(x)[1] for name, model in models.items()}  # type: ignore[operator]

        return represent

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean of both terms over the batch."""
        if not given:
            entropy = cross_entropy(model(x), y)
            return torch.stack([entropy, torch.zeros_like(entropy)])
        logits, z = model.represent(x)  # type: ignore[operator]
        return torch.stack([cross_entropy(logits, y), self.mu * self.contrast(z, given)])

    def contrast(self, z: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean model-contrastive loss."""
        towards = cosine_similarity(z, given["global"], dim=1, eps=1e-8) / self.temperature
        away = cosine_similarity(z, given["previous"], dim=1, eps=1e-8) / self.temperature
        return torch.nn.functional.softplus(away - towards).mean()

    def remember(self, task: TrainTask, update: Update) -> PartState:
        """The model that the client has just trained."""
        return {"previous": update.params.values, "previous_counters": update.params.counters}
