"""The loop everyone writes: clients one after the other, ``nn.Module`` and ``torch.optim.SGD``, two threads."""

from collections.abc import Callable
from functools import cache

import torch
from cases import LR, Case, cohorts, samples, told

from entrofed.models.networks import build


def module(case: Case) -> torch.nn.Module:
    """The network."""
    if not case.widths:
        return build(case.network, case.shape, 10)
    layers: list[torch.nn.Module] = []
    for inputs, outputs in zip(case.widths, case.widths[1:], strict=False):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


@cache
def data(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """Of all clients, once for each process."""
    x, y, _, _ = samples(case)
    return torch.from_numpy(x.copy()), torch.from_numpy(y.copy())


def train(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int, batch: int) -> None:
    """Local training."""
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    for _ in range(epochs):
        order = torch.randperm(len(y))
        for start in range(0, len(y), batch):
            rows = order[start : start + batch]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def play(case: Case, ended: Callable[[], None]) -> None:
    """FedAvg; equal clients count the same."""
    if case.peers:
        raise SystemExit("none: there is a server")
    torch.set_num_threads(2)
    x, y = data(case)
    model = module(case)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for cohort in cohorts(case):
        total = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
        for client in cohort.tolist():
            model.load_state_dict(state)
            rows = slice(client * case.size, (client + 1) * case.size)
            train(model, x[rows], y[rows], case.epochs, case.batch)
            for name, tensor in model.state_dict().items():
                total[name] += tensor / case.cohort
        state = total
        ended()


if __name__ == "__main__":
    told(play)
