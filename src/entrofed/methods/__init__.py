"""Recipes: published algorithms as combinations of parts, any of which can be replaced.

>>> fedentopt(buffer=0.3, weigher="uniform").selector.buffer
0.3
"""

from entrofed.methods.baselines import full, oort, power_of_choice, reselection
from entrofed.methods.drift import (
    ccvr,
    cohort_prior,
    fedconcat,
    feddyn,
    fedlc,
    fednova,
    fedprox,
    fedrs,
    fedsam,
    moon,
    scaffold,
)
from entrofed.methods.fedavg import fedavg, fedavg_uniform
from entrofed.methods.fedentopt import fedcbs, fedentopt, kl
from entrofed.methods.infodiv import convex_hull, interior, max_sim, minimax_sim
from entrofed.methods.maxent import (
    fedentopt_maxent,
    fedmaxent,
    fedmaxent_prox,
    maxent,
    maxent_momentum,
    maxent_scaffold,
    maxent_weights,
    stratified,
)
from entrofed.methods.recipe import Recipe, method_of
from entrofed.methods.selection import (
    clustered_similarity,
    clustered_size,
    divfl,
    fedcor,
    fedentopt_estimated,
    hics,
    maxent_estimated,
)
from entrofed.methods.server_rules import (
    clipped,
    fedadagrad,
    fedadam,
    fedavgm,
    fedexp,
    fedyogi,
    krum,
    median,
    trimmed_mean,
)
from entrofed.methods.weighing import fedasl, feddisco, fedep, fedklentropy, inv_entropy, max_entropy
from entrofed.registry import OURS

__all__ = ["METHODS", "Recipe", "method_of"]

METHODS: dict[str, Recipe] = {
    recipe.__name__: recipe
    for recipe in (
        fedavg,
        fedavg_uniform,
        fedentopt,
        maxent,
        maxent_momentum,
        fedmaxent,
        fedmaxent_prox,
        maxent_scaffold,
        fedentopt_maxent,
        maxent_weights,
        stratified,
        fedklentropy,
        max_entropy,
        inv_entropy,
        fedep,
        fedasl,
        feddisco,
        fedprox,
        fednova,
        scaffold,
        feddyn,
        fedsam,
        moon,
        fedrs,
        fedlc,
        cohort_prior,
        fedconcat,
        ccvr,
        minimax_sim,
        convex_hull,
        max_sim,
        interior,
        power_of_choice,
        oort,
        kl,
        fedcbs,
        fedentopt_estimated,
        maxent_estimated,
        hics,
        clustered_size,
        clustered_similarity,
        divfl,
        fedcor,
        reselection,
        full,
        fedavgm,
        fedexp,
        fedadam,
        fedyogi,
        fedadagrad,
        median,
        trimmed_mean,
        krum,
        clipped,
    )
}
OURS["method"] = METHODS
