"""Several networks side by side, and one linear layer on all their encoders: the model of FedConcat."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from entrofed.errors import ConfigError


class Concatenated(nn.Module):
    """``branches`` that are trained apart; in the second phase a linear layer reads all of their encoders.

    In the first phase the prediction is the mean of the branches' probabilities. In the second the encoders are frozen
    and in evaluation mode.
    """

    phase: Tensor

    def __init__(self, build: Callable[[], nn.Module], branches: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList([build() for _ in range(branches)])
        first = self.branches[0]
        if not isinstance(output := getattr(first, "output", None), nn.Linear) or not hasattr(first, "encoder"):
            raise ConfigError(
                f"FedConcat joins networks that have an 'encoder' and a linear 'output', and {type(first).__name__} "
                "has not both; choose another model"
            )
        self.head = nn.Linear(branches * output.in_features, output.out_features)
        self.register_buffer("phase", torch.zeros((), dtype=torch.int64))

    def train(self, mode: bool = True) -> "Concatenated":
        """Training mode, except for encoders that are frozen."""
        super().train(mode)
        if int(self.phase):
            self.branches.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Inputs [batch, ...] to logits [batch, classes]."""
        if int(self.phase):
            return self.joined(x)
        probabilities = torch.stack([branch(x).softmax(dim=1) for branch in self.branches])
        return probabilities.mean(dim=0).clamp_min(torch.finfo(x.dtype).tiny).log()

    def settle(self) -> None:
        """Stay in this phase for good, which is then no tensor any more: a trace cannot depend on one."""
        phase = int(self.phase)
        del self.phase
        self.phase = phase  # type: ignore[assignment]

    def joined(self, x: Tensor) -> Tensor:
        """The linear layer's logits; nothing below it is trained."""
        with torch.no_grad():
            features = torch.cat([branch.encoder(x) for branch in self.branches], dim=1)  # type: ignore[operator]
        logits: Tensor = self.head(features)
        return logits
