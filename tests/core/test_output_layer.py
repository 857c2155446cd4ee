"""Where the output layer's bias lies, and what updates do to it."""

import numpy as np
import pytest
from torch import nn

from entrofed.core.output_layer import bias_moves, check_bias
from entrofed.core.params import Layout, Params
from entrofed.core.types import Update
from entrofed.errors import ConfigError
from entrofed.models.classifier import ProjectingClassifier

EMPTY = np.zeros(0, np.int64)


def find(model, classes):
    layout = Layout.of(model)
    start = layout.output_bias(classes)
    return None if start is None else next(entry.name for entry in layout.entries if entry.start == start)


def test_the_last_layer_with_a_value_per_class():
    assert find(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3)), 3) == "2.bias"
    assert find(nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3)), 3) == "1.bias"
    assert find(nn.Sequential(nn.Conv2d(1, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()), 3) == "0.bias"
    assert find(nn.Linear(4, 3), 3) == "bias"


def test_what_comes_after_it_or_looks_like_it_does_not_count():
    assert find(ProjectingClassifier(nn.Identity(), 4, 3, "features"), 3) == "output.bias"
    assert find(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), 3) == "0.bias"


def test_no_bias_to_look_at():
    frozen = nn.Linear(4, 3)
    frozen.bias.requires_grad_(False)
    for model in (nn.Linear(4, 3, bias=False), nn.Linear(4, 5), frozen, nn.BatchNorm1d(3)):
        assert find(model, 3) is None
    with pytest.raises(ConfigError, match=r"selector 'hics' looks at the bias .* of 3 values, one per class: give"):
        check_bias(None, 3, "selector 'hics'")
    with pytest.raises(ConfigError, match="how many classes there are, for example classes=10"):
        check_bias(0, 0, "selector 'hics'")
    assert check_bias(0, 2, "anybody") == 0


def test_moves_by_hand():
    """Values 1 and 2 are the bias; nobody learns anything from client 5, which moved nothing, and 6, which diverged."""
    sent = {3: [9, 1, 4, 9], 5: [0, 2, 2, 0], 6: [0, np.nan, 1, 0]}
    updates = [Update(k, Params(np.array(v, np.float32), EMPTY), 1, 1, 0.0, 0.0) for k, v in sent.items()]
    moves = bias_moves(1, 2, Params(np.full(4, 2, np.float32), EMPTY), updates)
    assert {client: move.tolist() for client, move in moves.items()} == {3: [-1, 2]}
