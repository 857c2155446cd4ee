"""Flower's simulation runtime with the strategy and the client that its tutorial has, on Ray."""

import logging
from collections.abc import Callable
from typing import Any

import torch
from cases import Case, told
from flwr.client import ClientApp, NumPyClient
from flwr.common import Context, ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation
from plain import data, module, train


class Client(NumPyClient):
    """Trains on its own samples."""

    def __init__(self, case: Case, number: int) -> None:
        self._case, self._rows = case, slice(number * case.size, (number + 1) * case.size)

    def fit(self, parameters: Any, config: Any) -> Any:
        """Local training."""
        torch.set_num_threads(1)
        model, (x, y) = module(self._case), data(self._case)
        names = model.state_dict()
        model.load_state_dict({name: torch.from_numpy(a) for name, a in zip(names, parameters, strict=True)})
        train(model, x[self._rows], y[self._rows], self._case.epochs, self._case.batch)
        return [tensor.numpy() for tensor in model.state_dict().values()], self._case.size, {}


def play(case: Case, ended: Callable[[], None]) -> None:
    """FedAvg by Flower."""
    if case.peers or case.clients > 10_000:
        raise SystemExit("none: a server, and a node for each client")
    logging.getLogger("flwr").setLevel(logging.ERROR)
    first = [tensor.numpy() for tensor in module(case).state_dict().values()]

    def evaluated(number: int, parameters: Any, config: Any) -> None:
        if number and all((a == b).all() for a, b in zip(parameters, first, strict=True)):
            raise SystemExit("failed: nobody trained")
        if number:
            ended()

    strategy = FedAvg(
        fraction_fit=case.cohort / case.clients,
        fraction_evaluate=0.0,
        min_fit_clients=case.cohort,
        min_available_clients=case.clients,
        accept_failures=False,
        initial_parameters=ndarrays_to_parameters(first),
        evaluate_fn=evaluated,
    )

    def server(context: Context) -> ServerAppComponents:
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=case.rounds))

    def client(context: Context) -> Any:
        return Client(case, int(context.node_config["partition-id"])).to_client()

    run_simulation(
        ServerApp(server_fn=server),
        ClientApp(client_fn=client),
        num_supernodes=case.clients,
        backend_config={"client_resources": {"num_cpus": 1}},
    )


if __name__ == "__main__":
    told(play)
