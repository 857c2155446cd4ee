from math import log, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.errors import ConfigError, DataError
from entrofed.info.entropy import FEW, effective_cohort, entropy, entropy_of_counts


def probabilities(classes):
    """Distributions over so many classes, some of them exactly 0."""
    values = st.one_of(st.just(0.0), st.floats(1e-6, 1.0))
    return arrays(np.float64, classes, elements=values).filter(np.any).map(lambda v: v / v.sum())


any_p = st.integers(1, 12).flatmap(probabilities)
any_counts = arrays(np.int64, st.integers(1, 12), elements=st.integers(0, 10_000))


def by_hand(p):
    return -sum(x * log(x) for x in p if x > 0)


@pytest.mark.parametrize(
    ("p", "bits"),
    [
        ([1.0], 0),
        ([0.0, 1.0, 0.0], 0),
        ([0.5, 0.5], 1),
        ([0.25] * 4, 2),
        ([0.5, 0.25, 0.125, 0.125], 1.75),
        ([0.9, 0.1], 0.468995593589281),
        ([0.7, 0.2, 0.1], 1.15677964944703),
    ],
)
def test_known_values(p, bits):
    assert float(entropy(p, base="bits")) == pytest.approx(bits, rel=1e-12, abs=0)
    assert float(entropy(p)) == pytest.approx(bits * log(2), rel=1e-12, abs=0)


def test_entropy_of_label_counts():
    nats = entropy_of_counts([[5, 5], [9, 1], [10, 0]])
    assert nats == pytest.approx([0.693147180559945, 0.325082973391448, 0], rel=1e-12, abs=0)
    assert entropy_of_counts([[10, 10, 0], [10, 5, 0]], base="bits") == pytest.approx(
        [1.0, 0.918295834054490], rel=1e-12
    )
    assert float(entropy_of_counts([0, 0, 0])) == 0


@given(p=any_p)
def test_bounds_and_the_plain_sum(p):
    h, bits = float(entropy(p)), float(entropy(p, base="bits"))
    assert h == pytest.approx(by_hand(p), rel=1e-12, abs=1e-14)
    assert bits == pytest.approx(h / log(2), rel=1e-12, abs=1e-14)
    assert 0 <= h <= log(len(p))
    assert 0 <= bits <= log2(len(p))
    assert (h == 0) == (np.count_nonzero(p) == 1)
    assert float(np.exp(entropy(p))) == pytest.approx(2**bits, rel=1e-12)


@pytest.mark.parametrize("classes", [1, 2, 3, 7, 10, 20, 100])
def test_uniform_attains_the_bound(classes):
    uniform = np.full(classes, 1 / classes)
    assert float(entropy(uniform)) == pytest.approx(log(classes), rel=1e-12)
    assert float(effective_cohort(uniform)) == pytest.approx(classes, rel=1e-12)


@given(p=any_p, data=st.data())
def test_order_and_empty_classes_do_not_matter(p, data):
    shuffled = np.array(data.draw(st.permutations(p.tolist())))
    assert float(entropy(shuffled)) == pytest.approx(float(entropy(p)), rel=1e-12, abs=1e-14)
    assert float(entropy(np.append(p, 0))) == pytest.approx(float(entropy(p)), rel=1e-12, abs=1e-14)


@given(classes=st.integers(2, 6), share=st.floats(0, 1), data=st.data())
def test_concave(classes, share, data):
    p, q = data.draw(probabilities(classes)), data.draw(probabilities(classes))
    mixed = share * p + (1 - share) * q
    assert entropy(mixed) >= share * entropy(p) + (1 - share) * entropy(q) - 1e-12


@given(p=any_p, q=any_p)
def test_additive_for_independent_parts(p, q):
    joint = np.outer(p, q).ravel()
    assert float(entropy(joint)) == pytest.approx(float(entropy(p) + entropy(q)), rel=1e-9, abs=1e-12)


@given(p=st.integers(2, 12).flatmap(probabilities))
def test_merging_two_classes_loses_exactly_their_own_entropy(p):
    merged = np.append(p[2:], p[0] + p[1])
    inside = entropy_of_counts(p[:2]) * (p[0] + p[1])
    assert float(entropy(merged) + inside) == pytest.approx(float(entropy(p)), rel=1e-9, abs=1e-12)


@given(counts=any_counts, factor=st.integers(1, 1000))
def test_counts_are_only_compared_with_each_other(counts, factor):
    h = entropy_of_counts(counts)
    assert float(entropy_of_counts(counts * factor)) == pytest.approx(float(h), rel=1e-12, abs=1e-14)
    if counts.sum():
        assert float(h) == pytest.approx(float(entropy(counts / counts.sum())), rel=1e-12, abs=1e-14)
    else:
        assert h == 0


@given(weights=any_p)
def test_effective_cohort_bounds(weights):
    size = float(effective_cohort(weights))
    assert size == pytest.approx(1 / sum(w * w for w in weights), rel=1e-12)
    assert 1 - 1e-12 <= size <= np.count_nonzero(weights) * (1 + 1e-12)
    # Renyi entropies fall with their order: 1/sum p^2 <= exp H
    assert size <= np.exp(entropy(weights)) * (1 + 1e-12)


@pytest.mark.parametrize("function", [entropy, entropy_of_counts, effective_cohort])
def test_leading_axes_float64_and_no_mutation(function):
    p = np.random.default_rng(0).dirichlet([0.5] * 5, size=(2, 3)).astype(np.float32)
    before = p.copy()
    result = function(p)
    assert result.shape == (2, 3)
    assert result.dtype == np.float64
    assert np.array_equal(p, before)
    assert result[1, 2] == function(p[1, 2])
    assert function(p[:, :0]).shape == (2, 0)


@pytest.mark.parametrize(
    ("function", "values", "says"),
    [
        (entropy, [0.5, -0.1, 0.6], "p[1] = -0.1"),
        (entropy, [[0.5, 0.5], [0.5, np.nan]], "p[1, 1] = nan"),
        (entropy, [[0.5, 0.5], [0.5, 0.6]], "p[1] sums to 1.1, not 1"),
        (entropy, [0.5, 0.500002], "p sums to 1.000002, not 1"),
        (entropy, [2.0, 1.0, -1.0], "p[2] = -1.0"),
        (entropy, 0.5, "shape is ()"),
        (entropy_of_counts, [3, -1], "counts[1] = -1.0"),
        (entropy_of_counts, [3, np.inf], "counts[1] = inf"),
        (entropy_of_counts, np.zeros((2, 0)), "shape is (2, 0)"),
        (effective_cohort, [0.5, 0.4], "weights sums to 0.9, not 1"),
    ],
)
def test_bad_input_is_refused_with_its_place(function, values, says):
    with pytest.raises(DataError) as caught:
        function(values)
    assert says in str(caught.value)


def test_a_sum_within_the_tolerance_is_accepted():
    assert float(entropy([0.5, 0.5000005])) == pytest.approx(log(2), abs=1e-6)
    assert float(entropy([1.0000005, 0.0])) == 0


def test_few_values_have_the_bits_of_many():
    rng = np.random.default_rng(0)
    many = rng.dirichlet(np.full(10, 0.1), 5000)
    many[0] = [1, *[0] * 9]
    assert many.size > FEW >= many[0].size
    for base in ("nats", "bits"):
        assert [entropy(p, base=base).tobytes() for p in many] == [h.tobytes() for h in entropy(many, base=base)]


def test_unknown_base():
    with pytest.raises(ConfigError, match="did you mean 'nats'"):
        entropy([1.0], base="nat")
