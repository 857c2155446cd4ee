"""Small studies: selection, topologies, adversarial clients; and advice from label counts."""

from entrofed.studies.advice import Advice, advise

__all__ = ["Advice", "advise"]
