"""The kinds of parts that a method is made of: selector, weigher, objective, server rule; and facts that clients tell.

A part is a frozen dataclass of hyperparameters with a ``name``; state passes in and out.
"""

from entrofed.core.parts.fact import Fact, LabelFact, ModelRuntime, When
from entrofed.core.parts.method import Build, Method, ServerRule
from entrofed.core.parts.part import ALL_CLIENTS, VALIDATION, Part, Sees, Wrapper, by_name
from entrofed.core.parts.selector import Selector
from entrofed.core.parts.training import ClientRule, Correction, Given, Objective, Task, TrainTask
from entrofed.core.parts.weigher import Weigher

__all__ = [
    "ALL_CLIENTS",
    "VALIDATION",
    "Build",
    "ClientRule",
    "Correction",
    "Fact",
    "Given",
    "LabelFact",
    "Method",
    "ModelRuntime",
    "Objective",
    "Part",
    "Sees",
    "Selector",
    "ServerRule",
    "Task",
    "TrainTask",
    "Weigher",
    "When",
    "Wrapper",
    "by_name",
]
