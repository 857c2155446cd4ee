"""Recipes: published algorithms as combinations of parts."""

from collections.abc import Callable

from entrofed.core.parts import Method
from entrofed.methods.baselines import full, power_of_choice, reselection
from entrofed.methods.drift import fedconcat, fedlc, fednova, fedprox, fedrs, moon, scaffold
from entrofed.methods.fedavg import fedavg, fedavg_uniform
from entrofed.methods.fedentopt import fedentopt, kl
from entrofed.methods.infodiv import convex_hull, interior, max_sim, minimax_sim
from entrofed.methods.maxent import fedentopt_maxent, maxent_weights
from entrofed.methods.server_rules import clipped, fedadagrad, fedadam, fedavgm, fedyogi, krum, median, trimmed_mean
from entrofed.methods.weighing import fedasl, fedep, fedklentropy, inv_entropy, max_entropy

METHODS: dict[str, Callable[[], Method]] = {
    recipe.__name__: recipe
    for recipe in (
        fedavg,
        fedavg_uniform,
        fedentopt,
        fedentopt_maxent,
        maxent_weights,
        fedklentropy,
        max_entropy,
        inv_entropy,
        fedep,
        fedasl,
        fedprox,
        fednova,
        scaffold,
        moon,
        fedrs,
        fedlc,
        fedconcat,
        minimax_sim,
        convex_hull,
        max_sim,
        interior,
        power_of_choice,
        kl,
        reselection,
        full,
        fedavgm,
        fedadam,
        fedyogi,
        fedadagrad,
        median,
        trimmed_mean,
        krum,
        clipped,
    )
}
