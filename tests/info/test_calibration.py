import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from entrofed.info.calibration import ClassSums, softmax_regression, virtual_features


def clients(rng, classes=3, width=4):
    """Three clients with other classes each; the last class is nobody's."""
    mix = rng.standard_normal((width, width))
    data = []
    for k in range(3):
        labels = rng.integers(0, classes - 1, 40)
        data.append((rng.standard_normal((40, width)) @ mix + labels[:, None] + 0.1 * k, labels))
    return data


def test_sums_of_clients_give_the_gaussians_of_all_samples():
    data = clients(np.random.default_rng(0))
    rows = np.sum([ClassSums.of(x, y, 3).packed() for x, y in data], axis=0)
    means, covariances = ClassSums.unpacked(rows).gaussians()
    x, y = (np.concatenate(part) for part in zip(*data, strict=True))
    for label in (0, 1):
        np.testing.assert_allclose(means[label], x[y == label].mean(axis=0))
        np.testing.assert_allclose(covariances[label], np.cov(x[y == label].T), atol=1e-10)
    assert not means[2].any()
    assert not covariances[2].any()


def test_the_same_by_the_papers_formula():
    """From each client's mean and covariance: equations 3 and 4 of the paper."""
    data = clients(np.random.default_rng(1))
    sums = ClassSums.unpacked(np.sum([ClassSums.of(x, y, 3).packed() for x, y in data], axis=0))
    means, covariances = sums.gaussians()
    for label in (0, 1):
        own = [x[y == label] for x, y in data]
        n = np.array([len(rows) for rows in own])
        mean = sum(len(rows) * rows.mean(axis=0) for rows in own) / n.sum()
        spread = sum((len(rows) - 1) * np.cov(rows.T) for rows in own)
        spread = spread + sum(len(rows) * np.outer(rows.mean(axis=0), rows.mean(axis=0)) for rows in own)
        spread = (spread - n.sum() * np.outer(mean, mean)) / (n.sum() - 1)
        np.testing.assert_allclose(means[label], mean)
        np.testing.assert_allclose(covariances[label], spread, atol=1e-10)


def test_a_single_sample_is_a_point():
    sums = ClassSums.of(np.array([[1.0, 2.0]]), np.array([1]), 2)
    features, labels = virtual_features(sums, 5, np.random.default_rng(0))
    assert labels.tolist() == [1] * 5
    np.testing.assert_array_equal(features, [[1.0, 2.0]] * 5)


def test_virtual_features_have_the_classes_moments():
    data = clients(np.random.default_rng(2))
    sums = ClassSums.of(*data[0], 3)
    means, covariances = sums.gaussians()
    features, labels = virtual_features(sums, 20000, np.random.default_rng(0))
    assert set(labels) == {0, 1}
    for label in (0, 1):
        drawn = features[labels == label]
        assert len(drawn) == 20000
        np.testing.assert_allclose(drawn.mean(axis=0), means[label], atol=0.1)
        np.testing.assert_allclose(np.cov(drawn.T), covariances[label], rtol=0.1, atol=0.2)


def test_the_classifier_is_the_reference_solvers():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 300)
    features = rng.standard_normal((300, 4)) + labels[:, None]
    weight, bias = softmax_regression(features, labels, np.zeros((3, 4)), np.zeros(3), decay=0.01, steps=1000)
    theirs = LogisticRegression(C=1 / (0.01 * 300), tol=1e-10, max_iter=10000).fit(features, labels)
    logits = features @ weight.T + bias
    ours = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(ours / ours.sum(axis=1, keepdims=True), theirs.predict_proba(features), atol=2e-3)


def test_classes_without_samples_keep_their_row():
    weight, bias = softmax_regression(
        np.array([[1.0], [-1.0]]), np.array([0, 2]), np.full((3, 1), 7.0), np.arange(3.0), decay=0.1, steps=50
    )
    assert weight[1] == 7.0
    assert bias[1] == 1.0
    assert weight[0] > weight[2]


@pytest.mark.parametrize("width", [1, 2, 17])
def test_packed_rows_come_back(width):
    rng = np.random.default_rng(width)
    sums = ClassSums.of(rng.standard_normal((9, width)), rng.integers(0, 3, 9), 3)
    back = ClassSums.unpacked(sums.packed())
    assert all(np.array_equal(getattr(sums, name), getattr(back, name)) for name in ("counts", "first", "second"))
