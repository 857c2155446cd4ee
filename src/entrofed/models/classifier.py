"""A network as an encoder and a linear output layer, which some methods look at apart."""

from typing import Literal, get_args

from torch import Tensor, nn

from entrofed.errors import unknown

ProjectionHead = Literal["features", "projection"]


class Classifier(nn.Module):
    """logits = output(encoder(x))."""

    def __init__(self, encoder: nn.Module, output: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = output

    def forward(self, x: Tensor) -> Tensor:
        """Inputs [batch, ...] to logits [batch, classes]."""
        logits: Tensor = self.output(self.encoder(x))
        return logits

    def represent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [batch, classes] and the representation that contrastive training compares, from one pass."""
        h = self.encoder(x)
        return self.output(h), h


class ProjectingClassifier(Classifier):
    """A classifier with the 256-dimensional representation that contrastive training compares (MOON).

    ``head="features"``: the output layer reads the features, the projection is a side branch (FedKLEntropy's
    form; without a contrastive term the projection gets no gradient). ``head="projection"``: the output layer
    reads the projection (MOON's own form), which then is the end of the encoder.
    """

    def __init__(self, features: nn.Module, width: int, classes: int, head: ProjectionHead) -> None:
        if head not in get_args(ProjectionHead):
            raise unknown("head", head, get_args(ProjectionHead))
        project = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 256))
        if head == "features":
            super().__init__(features, nn.Linear(width, classes))
            self.projection: nn.Module = project
        else:
            super().__init__(nn.Sequential(features, project), nn.Linear(256, classes))
            self.projection = nn.Identity()

    def represent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [batch, classes] and projection [batch, 256] from one pass."""
        h = self.encoder(x)
        return self.output(h), self.projection(h)
