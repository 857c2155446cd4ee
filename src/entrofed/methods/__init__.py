"""Recipes: published algorithms as combinations of parts."""

from collections.abc import Callable

from entrofed.methods.baselines import full, power_of_choice, reselection
from entrofed.methods.fedavg import fedavg, fedavg_uniform
from entrofed.types import Method

METHODS: dict[str, Callable[[], Method]] = {
    recipe.__name__: recipe for recipe in (fedavg, fedavg_uniform, full, power_of_choice, reselection)
}
