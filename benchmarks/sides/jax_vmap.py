"""JAX: a cohort as one computation, compiled; perceptrons only."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cases import LR, Case, cohorts, samples, told


def logits(params: Any, x: Any) -> Any:
    """A perceptron."""
    for weight, bias in params[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = params[-1]
    return x @ weight + bias


def loss(params: Any, x: Any, y: Any) -> Any:
    """Mean cross entropy."""
    return -jnp.take_along_axis(jax.nn.log_softmax(logits(params, x)), y[:, None], axis=1).mean()


def local(params: Any, x: Any, y: Any, order: Any) -> Any:
    """Steps of SGD over the batches of an order."""

    def step(params: Any, rows: Any) -> tuple[Any, None]:
        slopes = jax.grad(loss)(params, x[rows], y[rows])
        return jax.tree.map(lambda p, g: p - LR * g, params, slopes), None

    return jax.lax.scan(step, params, order)[0]


@partial(jax.jit, donate_argnums=0)
def round_of(params: Any, x: Any, y: Any, orders: Any) -> Any:
    """The mean of what the clients make of a model."""
    found = jax.vmap(local, in_axes=(None, 0, 0, 0))(params, x, y, orders)
    return jax.tree.map(lambda p: p.mean(axis=0), found)


def play(case: Case, ended: Callable[[], None]) -> None:
    """FedAvg; a last batch that is not full is left out, which is to JAX's advantage."""
    if case.peers or not case.widths:
        raise SystemExit("none: perceptrons with a server only")
    x, y, _, _ = samples(case)
    x = x.reshape(case.clients, case.size, -1)
    y = y.reshape(case.clients, case.size)
    rng = np.random.default_rng(2)
    shapes = zip(case.widths, case.widths[1:], strict=False)
    params: Any = [(jnp.asarray(rng.normal(0, a**-0.5, (a, b)), jnp.float32), jnp.zeros(b)) for a, b in shapes]
    batches = case.size // case.batch
    for cohort in cohorts(case):
        drawn = rng.permuted(np.tile(np.arange(case.size), (case.cohort, case.epochs, 1)), axis=2)
        orders = drawn[:, :, : batches * case.batch].reshape(case.cohort, -1, case.batch)
        params = round_of(params, x[cohort], y[cohort], orders)
        jax.block_until_ready(params)
        ended()


if __name__ == "__main__":
    told(play)
