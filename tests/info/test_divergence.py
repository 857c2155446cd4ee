from math import inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.errors import DataError
from entrofed.info.divergence import cross_entropy, js, kl
from entrofed.info.entropy import entropy


def probabilities(classes, positive=False):
    values = st.floats(1e-6, 1.0) if positive else st.one_of(st.just(0.0), st.floats(1e-6, 1.0))
    return arrays(np.float64, classes, elements=values).filter(np.any).map(lambda v: v / v.sum())


pairs = st.integers(1, 8).flatmap(lambda c: st.tuples(probabilities(c), probabilities(c)))
positive_pairs = st.integers(1, 8).flatmap(lambda c: st.tuples(probabilities(c), probabilities(c, positive=True)))


def kl_by_hand(p, q):
    return sum(a * log(a / b) if b > 0 else inf for a, b in zip(p, q, strict=True) if a > 0)


def test_known_values():
    assert float(kl([0.5, 0.5], [0.9, 0.1])) == pytest.approx(0.510825623765991, rel=1e-12)
    assert float(kl([0.9, 0.1], [0.5, 0.5])) == pytest.approx(0.368064207168497, rel=1e-12)
    # 0.3 ln(4/3)
    assert float(js([0.4, 0.0, 0.2, 0.4], [0.2, 0.2, 0.2, 0.4])) == pytest.approx(0.0863046217355343, rel=1e-12)
    assert float(cross_entropy([1, 0], [0.25, 0.75])) == pytest.approx(log(4), rel=1e-12)
    # pooled label counts of a growing cohort against the uniform distribution
    pooled = np.array([[6, 2, 0], [6, 6, 4], [6, 6, 5], [6, 6, 6]])
    assert kl(pooled / pooled.sum(-1, keepdims=True), np.full(3, 1 / 3)) == pytest.approx(
        [0.536277144049301, 0.0164167586293424, 0.00353442654760902, 0], rel=1e-12, abs=1e-15
    )


@given(pair=pairs)
def test_kl_is_the_plain_sum_and_not_negative(pair):
    p, q = pair
    found = float(kl(p, q))
    assert found == pytest.approx(kl_by_hand(p, q), rel=1e-9, abs=1e-12)
    assert found >= 0
    assert (found == inf) == bool(((q == 0) & (p > 0)).any())
    assert float(kl(p, p)) == 0


@given(pair=positive_pairs)
def test_pinsker(pair):
    """KL(p || q) >= ||p - q||_1^2 / 2: zero only for equal distributions."""
    p, q = pair
    assert kl(p, q) >= np.abs(p - q).sum() ** 2 / 2 - 1e-12


@given(p=st.integers(1, 10).flatmap(probabilities))
def test_kl_to_uniform_is_the_missing_entropy(p):
    uniform = np.full(len(p), 1 / len(p))
    assert float(kl(p, uniform)) == pytest.approx(log(len(p)) - float(entropy(p)), rel=1e-9, abs=1e-12)


@given(pair=positive_pairs)
def test_cross_entropy_is_entropy_plus_divergence(pair):
    p, q = pair
    assert float(cross_entropy(p, q)) == pytest.approx(float(entropy(p) + kl(p, q)), rel=1e-9, abs=1e-12)
    assert float(cross_entropy(p, p)) == pytest.approx(float(entropy(p)), rel=1e-12, abs=1e-14)


@given(pair=pairs)
def test_js_is_symmetric_bounded_and_defined_by_kl(pair):
    p, q = pair
    found = float(js(p, q))
    assert found == float(js(q, p))
    assert 0 <= found <= log(2)
    middle = (p + q) / 2
    assert found == pytest.approx(float(kl(p, middle) + kl(q, middle)) / 2, rel=1e-9, abs=1e-12)
    assert found == pytest.approx(float(entropy(middle) - (entropy(p) + entropy(q)) / 2), abs=1e-12)
    assert float(js(p, p)) == 0


@given(p=st.integers(1, 5).flatmap(probabilities), q=st.integers(1, 5).flatmap(probabilities))
def test_js_of_disjoint_distributions_is_ln_2(p, q):
    left = np.concatenate([p, np.zeros_like(q)])
    right = np.concatenate([np.zeros_like(p), q])
    assert float(js(left, right)) == pytest.approx(log(2), rel=1e-12)


@pytest.mark.parametrize("divergence", [kl, js, cross_entropy])
@given(pair=positive_pairs, data=st.data())
def test_order_of_classes_does_not_matter(divergence, pair, data):
    p, q = pair
    order = data.draw(st.permutations(range(len(p))))
    assert float(divergence(p[order], q[order])) == pytest.approx(float(divergence(p, q)), rel=1e-9, abs=1e-12)


@given(one=positive_pairs, two=positive_pairs)
def test_kl_is_additive_for_independent_parts(one, two):
    joint = [np.outer(a, b).ravel() for a, b in zip(one, two, strict=True)]
    assert float(kl(*joint)) == pytest.approx(float(kl(*one) + kl(*two)), rel=1e-9, abs=1e-12)


@given(pair=st.integers(2, 8).flatmap(lambda c: st.tuples(probabilities(c), probabilities(c, positive=True))))
def test_merging_classes_never_separates(pair):
    p, q = pair
    merged = [np.append(v[2:], v[0] + v[1]) for v in (p, q)]
    assert kl(*merged) <= kl(p, q) + 1e-12
    assert js(*merged) <= js(p, q) + 1e-12


@given(classes=st.integers(2, 6), share=st.floats(0, 1), data=st.data())
def test_kl_is_jointly_convex(classes, share, data):
    p1, p2 = (data.draw(probabilities(classes)) for _ in range(2))
    q1, q2 = (data.draw(probabilities(classes, positive=True)) for _ in range(2))
    mixed = kl(share * p1 + (1 - share) * p2, share * q1 + (1 - share) * q2)
    assert mixed <= share * kl(p1, q1) + (1 - share) * kl(p2, q2) + 1e-12


def test_a_missing_class_is_infinite_and_silent():
    assert float(kl([0.5, 0.5], [1.0, 0.0])) == inf
    assert float(cross_entropy([0.5, 0.5], [1.0, 0.0])) == inf
    assert float(kl([1.0, 0.0], [1.0, 0.0])) == 0
    assert float(cross_entropy([1.0, 0.0], [1.0, 0.0])) == 0


def test_tiny_probabilities_do_not_underflow():
    assert float(js([1.0, 5e-324], [1.0, 0.0])) == 0
    assert float(kl([1 - 1e-10, 1e-10], [1.0, 5e-324])) == pytest.approx(
        1e-10 * (log(1e-10) - log(5e-324) - 1), rel=1e-9
    )


@pytest.mark.parametrize("divergence", [kl, js, cross_entropy])
def test_leading_axes_broadcast(divergence):
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1.0] * 4, size=(3, 1)).astype(np.float32)
    q = rng.dirichlet([1.0] * 4, size=5)
    result = divergence(p, q)
    assert result.shape == (3, 5)
    assert result.dtype == np.float64
    assert result[2, 3] == divergence(p[2, 0], q[3])


@pytest.mark.parametrize("divergence", [kl, js, cross_entropy])
@pytest.mark.parametrize(
    ("p", "q", "says"),
    [
        ([0.5, 0.4], [0.5, 0.5], "p sums to 0.9, not 1"),
        ([0.5, 0.5], [[0.5, 0.5], [1.5, -0.5]], "q[1, 1] = -0.5"),
        ([0.5, np.nan], [0.5, 0.5], "p[1] = nan"),
        ([1.0], [0.5, 0.5], "p has 1 classes and q has 2"),
        (np.full((2, 2), 0.5), np.full((3, 2), 0.5), "p of shape (2, 2) and q of shape (3, 2)"),
    ],
)
def test_bad_input_is_refused_with_its_place(divergence, p, q, says):
    with pytest.raises(DataError) as caught:
        divergence(p, q)
    assert says in str(caught.value)
