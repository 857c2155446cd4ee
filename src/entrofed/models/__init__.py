"""The papers' networks."""

from entrofed.models.networks import MODELS, build

__all__ = ["MODELS", "build"]
