"""Label counts from moves of the output layer's bias."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.info.label_estimates import estimated_counts


def moves(labels, classes, steps, lr, momentum=0.0):
    """What SGD on one batch of random inputs does to the bias of a linear model."""
    torch.manual_seed(0)
    model = torch.nn.Linear(8, classes)
    with torch.no_grad():
        model.bias.zero_()
        model.weight.mul_(0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=momentum)
    x, y = torch.randn(len(labels), 8), torch.tensor(labels)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.bias.detach().double().numpy()


def test_by_hand():
    """Rises 3 and 1 of 8 samples; of the second nothing is known: the mean of shares (3/4, 1/4) and (0, 1)."""
    found = estimated_counts(np.array([[3.0, 1.0], [0.0, 0.0], [0.0, 0.5]]), np.array([8.0, 16.0, 2.0]))
    assert found.tolist() == [[6, 2], [6, 10], [0, 2]]
    assert estimated_counts(np.zeros((2, 4)), np.array([4.0, 8.0])).tolist() == [[1] * 4, [2] * 4]


@pytest.mark.parametrize(("steps", "lr", "momentum"), [(1, 0.1, 0.0), (50, 0.5, 0.0), (50, 0.05, 0.9)])
def test_a_client_with_one_class_is_recognized_exactly(steps, lr, momentum):
    rises = np.maximum(moves([3] * 20, 5, steps, lr, momentum), 0)
    assert estimated_counts(rises[None], np.array([20.0]))[0] == pytest.approx([0, 0, 0, 20, 0])


def test_two_classes_in_their_proportion():
    """One step: moves lr (D - s), with s near 1/5: (0.55, 0.05, -0.2, -0.2, -0.2), so shares 11/12 and 1/12."""
    rises = np.maximum(moves([0] * 75 + [1] * 25, 5, 1, 0.1), 0)
    assert estimated_counts(rises[None], np.ones(1))[0] == pytest.approx([11 / 12, 1 / 12, 0, 0, 0], abs=0.05)


@given(arrays(np.float64, (3, 4), elements=st.floats(0, 1e6)), arrays(np.float64, 3, elements=st.floats(1, 1e6)))
def test_counts_are_counts(rises, examples):
    found = estimated_counts(rises, examples)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), examples)
    np.testing.assert_allclose(estimated_counts(rises * 8, examples), found)
