"""pfl-research, one process, PyTorch."""

from collections.abc import Callable
from typing import Any

import torch
from cases import LR, Case, samples, told
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from plain import module


class Network(torch.nn.Module):
    """With the two functions that pfl asks for."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.layers = module(case)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        found: torch.Tensor = self.layers(x)
        return found

    def loss(self, x: torch.Tensor, y: torch.Tensor, is_eval: bool = False) -> torch.Tensor:
        """Cross entropy."""
        return torch.nn.functional.cross_entropy(self(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        """Nothing is evaluated."""
        return {}


class Ended(TrainingProcessCallback):  # type: ignore[misc]
    """Hears of the end of each round."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended

    def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:
        """Go on."""
        self._ended()
        return False, Metrics()


def play(case: Case, ended: Callable[[], None]) -> None:
    """FedAvg."""
    if case.peers:
        raise SystemExit("none: there is a server")
    torch.set_num_threads(2)
    x, y = (torch.from_numpy(array.copy()) for array in samples(case)[:2])

    def user(number: int) -> Any:
        rows = slice(number * case.size, (number + 1) * case.size)
        return Dataset(raw_data=[x[rows], y[rows]])

    network = Network(case)
    federated = FederatedDataset(user, get_user_sampler("random", list(range(case.clients))))
    FederatedAveraging().run(
        NNAlgorithmParams(case.rounds, case.rounds + 1, case.cohort, None),
        SimulatedBackend(federated, None),
        PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), 1.0)),
        NNTrainHyperParams(local_num_epochs=case.epochs, local_learning_rate=LR, local_batch_size=case.batch),
        callbacks=[Ended(ended)],
    )


if __name__ == "__main__":
    told(play)
