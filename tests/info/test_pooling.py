from math import log

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.errors import ConfigError, DataError
from entrofed.info.divergence import kl
from entrofed.info.mixture import Mixture, fit
from entrofed.info.pooling import pmf, pool, pool_as_authors, pooled_divergences, pooled_weights, pooling_weights

NARROW = np.array([30, 1, 0, 0.25])
WIDE = np.array([10, 0.5, 0, 0.25, 0.5, 2, 0.25])

MODES = ["smoothed", "paper", "histogram"]


def label_counts(classes):
    return arrays(np.float64, classes, elements=st.integers(0, 9).map(float))


tables = st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(
    lambda shape: st.lists(label_counts(shape[0]), min_size=shape[1], max_size=shape[1])
)
members = st.lists(st.tuples(st.one_of(st.just(0.0), st.floats(-1, 9)), st.integers(0, 50)), min_size=1, max_size=6)


def summaries(rows, mode):
    if mode == "histogram":
        return rows
    return [fit(row).to_vector() if row.any() else np.zeros(1) for row in rows]


def test_histogram_without_smoothing():
    counts = [np.array(row) for row in ([6, 2, 2], [2, 6, 2], [4, 4, 4])]
    found, sizes = pooled_divergences(counts, 3, mode="histogram", smoothing=0)
    rows = np.array([row / row.sum() for row in counts])
    assert pool(rows, sizes, 0.0)[0] == pytest.approx([0.375, 0.375, 0.25], rel=1e-12)
    assert found == pytest.approx([0.115262774144792, 0.115262774144792, 0.0164167586293424], rel=1e-9)
    assert pooled_weights(found, sizes) == pytest.approx(
        [0.466759931025646, 0.466759931025646, 0.0664801379487078], rel=1e-9
    )


def test_smoothed_histogram():
    counts = [np.array(row) for row in ([10, 0], [5, 5], [0, 30])]
    found, sizes = pooled_divergences(counts, 2, mode="histogram")
    rows = np.array([row / row.sum() for row in counts])
    assert pool(rows, sizes, 1e-2)[0] == pytest.approx([0.303921568627451, 0.696078431372549], rel=1e-12)
    assert found == pytest.approx([2.60818763320484, 0.0789966673636441, 0.798336450129838], rel=1e-9)
    assert pooled_weights(found, sizes) == pytest.approx(
        [0.748292097438321, 0.0226642367135003, 0.229043665848178], rel=1e-9
    )
    assert pooled_weights(found, sizes, present=[0, 1]) == pytest.approx(
        [0.970602437894962, 0.0293975621050376, 0], rel=1e-9
    )


@pytest.mark.parametrize(
    ("mode", "smoothing", "pooled", "divergences", "weights"),
    [
        (
            "paper",
            0.0,
            [0.770506712456, 0.119167711002, 0.110325576542],
            [0.550597882362, 0.278244250928],
            [0.664297651202, 0.335702348798],
        ),
        (
            "smoothed",
            1e-2,
            [0.757773507239, 0.125405544662, 0.116820948099],
            [0.187268834377, 0.262401986152],
            [0.41645760816, 0.58354239184],
        ),
    ],
)
def test_mixtures(mode, smoothing, pooled, divergences, weights):
    rows = np.array([pmf(Mixture.from_vector(vector), np.arange(3)) for vector in (NARROW, WIDE)])
    found, sizes = pooled_divergences([NARROW, WIDE], 3, mode=mode)
    assert sizes.tolist() == [30, 10]
    assert pool(rows, sizes, smoothing)[0] == pytest.approx(pooled, rel=1e-9)
    assert found == pytest.approx(divergences, rel=1e-9)
    assert pooled_weights(found, sizes) == pytest.approx(weights, rel=1e-9)


@pytest.mark.parametrize(
    ("vector", "densities"),
    [
        (NARROW, [0.797884560803, 0.107981933026, 0.00026766045153]),
        (WIDE, [0.399076110627, 0.107981933026, 0.399076110627]),
    ],
)
def test_densities(vector, densities):
    mixture = Mixture.from_vector(vector)
    assert np.exp(mixture.log_joint(np.arange(3))).sum(axis=1) == pytest.approx(densities, rel=1e-9)
    assert pmf(mixture, np.arange(3)) == pytest.approx(np.array(densities) / 0.906134154281, rel=1e-9)


def test_as_printed():
    """Both densities sum to 0.906134154281 here: the divergences are those of the normalized ones times that."""
    found, _ = pooled_divergences([NARROW, WIDE], 3, mode="printed")
    assert found == pytest.approx(0.906134154281 * np.array([0.550597882362, 0.278244250928]), rel=1e-9)
    assert pooling_weights([NARROW, WIDE], 3, mode="printed")[0] == pytest.approx([0.664297651202, 0.335702348798])


def test_as_printed_a_divergence_can_be_negative():
    """At label 0, N(0, 0.01) has ten times the density of N(0, 1): the pool is nearer to nothing than to that."""
    sharp, flat = np.array([30, 1, 0, 0.01]), np.array([10, 1, 0, 1.0])
    found, _ = pooled_divergences([sharp, flat], 1, mode="printed")
    densities = np.array([10, 1]) / np.sqrt(2 * np.pi)
    pooled = densities @ [0.75, 0.25]
    assert found == pytest.approx(pooled * np.log(pooled / densities), rel=1e-12)
    assert found[0] < 0 < found[1]
    assert pooling_weights([sharp, flat], 1, mode="printed")[0].tolist() == [0.75, 0.25]  # data sizes
    assert pooled_weights(found, [30, 10]).tolist() == [0, 1]  # as for the authors' rounding


def test_as_printed_nothing_is_floored():
    """N(0, 0.01) at label 9: exp(-4050) is no number, its logarithm is."""
    one, other = np.array([1, 1, 0, 0.01]), np.array([1, 1, 9, 0.01])
    found, _ = pooled_divergences([one, other], 10, mode="printed")
    peak = 10 / np.sqrt(2 * np.pi)  # the density of each at its own label; half of it is pooled
    assert found == pytest.approx(2 * [peak / 2 * (4050 - 2 * log(2))], rel=1e-3)


@given(rows=tables)
@settings(deadline=None, max_examples=30)
def test_as_printed_the_mean_by_size_is_never_negative(rows):
    """ln is concave; so the weights are shares wherever all have one sign."""
    found, sizes = pooled_divergences(summaries(rows, "printed"), len(rows[0]), mode="printed")
    assert found @ sizes >= -1e-9 * max(1.0, sizes.sum())
    weights = pooling_weights(summaries(rows, "printed"), len(rows[0]), mode="printed")[0]
    literal = sizes.any() and (found >= 0).all() and found.sum() > 1e-6
    assert weights == pytest.approx(found / found.sum() if literal else weights)
    assert weights.sum() == pytest.approx(1)


def test_as_the_authors():
    pooled, parts = pool_as_authors([Mixture.from_vector(NARROW), Mixture.from_vector(WIDE)], np.arange(3))
    assert pooled == pytest.approx([0.582159682416, 0.131255037878, 0.0841798310954], rel=1e-9)
    assert parts == pytest.approx(np.array([[0.4986, 0.0898, 0.0009], [0.0836, 0.0415, 0.0833]]), rel=1e-12)
    found, sizes = pooled_divergences([NARROW, WIDE], 3, mode="authors")
    assert found == pytest.approx([0.455432561726, 1.7415655016], rel=1e-9)
    assert pooled_weights(found, sizes) == pytest.approx([0.2072976619, 0.7927023381], rel=1e-9)


def test_the_authors_weigh_alike_clients_against_their_size():
    for sizes, weights in [
        ((7, 7, 7), [1 / 3] * 3),
        ((100, 10, 10), [0.038488436474534, 0.480755781762733, 0.480755781762733]),
    ]:
        found = pooled_divergences([np.array([size, 1, 1, 0.5]) for size in sizes], 3, mode="authors")
        assert pooled_weights(*found) == pytest.approx(weights, rel=1e-9)


def test_the_authors_look_at_their_own_labels_only():
    whole, _ = pooled_divergences([NARROW, WIDE], 3, mode="authors", labels=[2, 0, 1, 1])
    assert whole.tolist() == pooled_divergences([NARROW, WIDE], 3, mode="authors")[0].tolist()
    terms = [pooled_divergences([NARROW, WIDE], 3, mode="authors", labels=[y])[0] for y in range(3)]
    assert sum(terms) == pytest.approx(whole, rel=1e-12)
    nothing, sizes = pooled_divergences([NARROW, WIDE], 3, mode="authors", labels=[])
    assert nothing.tolist() == [0, 0]
    assert pooled_weights(nothing, sizes).tolist() == [0.75, 0.25]


def test_a_client_of_two_far_labels_looks_uniform_as_a_mixture():
    """Labels 0 and 9 become N(4.5, 20.25), so that FedEP gives little weight to a client it means to favour."""
    uniform, two, one = np.full(10, 0.1), np.zeros(10), np.zeros(10)
    two[[0, 9]], one[4] = 5, 10
    q = pmf(fit(two), np.arange(10))
    assert q.min() == pytest.approx(0.073, abs=5e-4)
    assert q.max() == pytest.approx(0.120, abs=5e-4)

    def from_uniform(q):
        return float(kl(uniform, pool(np.array([q]), np.ones(1), 1e-2)[0]))

    assert from_uniform(q) == pytest.approx(0.0127, abs=5e-5)
    assert from_uniform(two / 10) == pytest.approx(1.6115, abs=5e-5)
    assert from_uniform(pmf(fit(one), np.arange(10))) == pytest.approx(1.9364, abs=5e-5)


@pytest.mark.parametrize("mode", MODES)
@given(rows=tables)
@settings(deadline=None, max_examples=30)
def test_divergences_are_finite_and_not_negative(mode, rows):
    found, sizes = pooled_divergences(summaries(rows, mode), len(rows[0]), mode=mode)
    assert (found >= 0).all()
    assert np.isfinite(found).all()
    assert sizes == pytest.approx([row.sum() for row in rows])
    assert (found[sizes == 0] == 0).all()
    if mode != "paper":
        assert (found <= log(101)).all()


@given(rows=tables, smoothing=st.sampled_from([0.0, 1e-2, 1.0]), data=st.data())
def test_histograms_do_not_depend_on_the_order_of_classes(rows, smoothing, data):
    order = data.draw(st.permutations(range(len(rows[0]))))
    found, _ = pooled_divergences(rows, len(order), mode="histogram", smoothing=smoothing)
    other, _ = pooled_divergences([row[order] for row in rows], len(order), mode="histogram", smoothing=smoothing)
    assert other == pytest.approx(found, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("mode", ["smoothed", "paper", "authors"])
def test_mixtures_do_depend_on_the_order_of_classes(mode):
    """Neighbouring classes or far ones: the same client to a histogram, not to a Gaussian."""
    rows = [np.array([5.0, 5, 0, 0, 0, 0]), np.array([2.0, 2, 2, 2, 2, 2])]
    order = [0, 5, 2, 3, 4, 1]
    found, _ = pooled_divergences(summaries(rows, mode), 6, mode=mode)
    other, _ = pooled_divergences(summaries([row[order] for row in rows], mode), 6, mode=mode)
    assert abs(other[0] - found[0]) > 0.05


@pytest.mark.parametrize("mode", MODES)
@given(rows=tables, scale=st.sampled_from([1e-3, 0.5, 3.0, 1e6]))
@settings(deadline=None, max_examples=30)
def test_only_the_ratio_of_sizes_matters(mode, rows, scale):
    vectors = [np.array(vector, dtype=float) for vector in summaries(rows, mode)]
    found, sizes = pooled_divergences(vectors, len(rows[0]), mode=mode)
    for vector in vectors:
        vector[: None if mode == "histogram" else 1] *= scale
    other, scaled = pooled_divergences(vectors, len(rows[0]), mode=mode)
    assert other == pytest.approx(found, rel=1e-9, abs=1e-12)
    assert scaled == pytest.approx(sizes * scale)


def test_only_the_ratio_of_sizes_matters_to_the_authors():
    found, _ = pooled_divergences([NARROW, WIDE], 3, mode="authors")
    for scale in (1e-3, 7.0, 1e6):
        scaled = [vector * np.array([scale, *[1] * (len(vector) - 1)]) for vector in (NARROW, WIDE)]
        assert pooled_divergences(scaled, 3, mode="authors")[0] == pytest.approx(found, rel=1e-3)


@pytest.mark.parametrize("mode", ["smoothed", "histogram"])
@given(rows=tables, pair=st.tuples(*[st.one_of(st.just(0.0), st.floats(1e-15, 10.0))] * 2).map(sorted))
@settings(deadline=None, max_examples=30)
def test_smoothing_never_separates(mode, rows, pair):
    vectors = summaries(rows, mode)
    less, more = (pooled_divergences(vectors, len(rows[0]), mode=mode, smoothing=eps)[0] for eps in pair)
    assert (more <= less + 1e-9).all()


@pytest.mark.parametrize("mode", MODES)
@given(rows=tables)
@settings(deadline=None, max_examples=30)
def test_a_client_that_is_the_pool_does_not_diverge(mode, rows):
    """The pool as one more member leaves the pool as it is. Smoothing and pooling may change places."""
    some = [row for row in rows if row.any()]
    assume(some)
    if mode == "histogram":
        found, sizes = pooled_divergences([*some, sum(some)], len(some[0]), mode=mode)
    else:
        one = fit(some[0])
        both = [Mixture(size, one.weights, one.means, one.variances).to_vector() for size in (3.0, 40.0)]
        found, sizes = pooled_divergences(both, len(some[0]), mode=mode)
    assert found[-1] == pytest.approx(0, abs=1e-12)
    weights = pooled_weights(found, sizes)
    assert found.sum() < 1e-11 or weights[-1] == pytest.approx(weights.min(), abs=1e-9)


@pytest.mark.parametrize("mode", [*MODES, "printed", "authors"])
@given(rows=tables, data=st.data())
@settings(deadline=None, max_examples=30)
def test_order_of_clients_and_empty_ones_do_not_matter(mode, rows, data):
    vectors, classes = summaries(rows, mode), len(rows[0])
    found, sizes = pooled_divergences(vectors, classes, mode=mode)
    order = data.draw(st.permutations(range(len(rows))))
    other, _ = pooled_divergences([vectors[k] for k in order], classes, mode=mode)
    assert other == pytest.approx(found[order], rel=1e-9, abs=1e-12)
    some = np.flatnonzero(sizes)
    fewer, _ = pooled_divergences([vectors[k] for k in some], classes, mode=mode)
    assert fewer == pytest.approx(found[some], rel=1e-9, abs=1e-12)


@given(rows=tables)
@settings(deadline=None, max_examples=30)
def test_only_rounding_makes_the_authors_divergences_negative(rows):
    """P_k exceeds its part of P by 5e-5 at most, so log2((P + 0.01) / (P_k + 0.01)) is above -0.0073."""
    vectors = summaries(rows, "authors")
    found, sizes = pooled_divergences(vectors, len(rows[0]), mode="authors")
    assume(sizes.any())
    mixtures = [Mixture.from_vector(vector) for vector in vectors if len(vector) > 1]
    pooled, _ = pool_as_authors(mixtures, np.arange(len(rows[0])))
    assert (found >= -0.0073 * pooled.sum()).all()


def test_a_zero_size_is_empty_whatever_else_was_sent():
    ghost = np.array([0, 1, 2, 0.25])
    found, sizes = pooled_divergences([NARROW, ghost, WIDE], 3)
    assert found[[0, 2]].tolist() == pooled_divergences([NARROW, WIDE], 3)[0].tolist()
    assert (found[1], sizes[1]) == (0, 0)


def test_nobody_has_labels():
    for mode, vector in (("smoothed", np.zeros(1)), ("authors", np.zeros(1)), ("histogram", np.zeros(3))):
        found, sizes = pooled_divergences([vector, vector], 3, mode=mode)
        assert found.tolist() == sizes.tolist() == [0, 0]
        assert pooled_weights(found, sizes).tolist() == [0.5, 0.5]


def test_alone():
    for mode in ("smoothed", "paper", "authors"):
        for vector in (NARROW, WIDE):
            assert pooled_weights(*pooled_divergences([vector], 3, mode=mode)).tolist() == [1]


def test_a_missing_label_without_smoothing_is_floored():
    """KL((0.75, 0.25) || (1, 1e-12)) = -H(0.75, 0.25) - 0.25 ln 1e-12."""
    found, _ = pooled_divergences([np.array([10, 0]), np.array([5, 5])], 2, mode="histogram", smoothing=0)
    assert found[0] == pytest.approx(0.75 * log(0.75) + 0.25 * log(0.25) + 0.25 * 12 * log(10), rel=1e-9)


@pytest.mark.parametrize("variance", [5e-324, 1e-300, 1e-12, 1e300, 1.7e308])
@pytest.mark.parametrize("mode", ["smoothed", "paper", "printed", "authors"])
def test_extreme_but_valid_mixtures_are_finite(mode, variance):
    hostile = np.array([1e308, 1, 0.4, variance])
    found, sizes = pooled_divergences([NARROW, hostile, hostile], 3, mode=mode)
    assert np.isfinite(found).all()
    weights = pooled_weights(found, sizes)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert weights.min() >= 0


@given(vectors=st.lists(arrays(np.float64, st.integers(0, 5), elements=st.floats()), max_size=3))
@settings(deadline=None, max_examples=30)
def test_whatever_is_sent_is_pooled_or_refused(vectors):
    for mode in [*MODES, "printed", "authors"]:
        try:
            found, sizes = pooled_divergences(vectors, 4, mode=mode)
        except DataError:
            continue
        assert np.isfinite(found).all()
        assert (sizes >= 0).all()


@pytest.mark.parametrize("direction", ["divergent", "aligned"])
@given(members=members, share=st.floats(0, 1), data=st.data())
def test_weights_form_a_simplex(direction, members, share, data):
    found, sizes = np.array(members, dtype=float).T
    present = data.draw(st.lists(st.integers(0, len(members) - 1), min_size=1, unique=True))
    some = sizes > 0
    alpha_min = share / max(1, some.sum())
    weights = pooled_weights(found, sizes, direction=direction, present=present, alpha_min=alpha_min)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert (weights >= 0).all()
    absent = np.setdiff1d(np.arange(len(members)), present)
    assert (weights[absent] == 0).all()
    if some[present].any():
        assert (weights[~some] == 0).all()
        assert (weights[present][some[present]] >= alpha_min - 1e-12).all()
    order = data.draw(st.permutations(range(len(members))))
    there = [k for k, member in enumerate(order) if member in present]
    again = pooled_weights(found[order], sizes[order], direction=direction, present=there, alpha_min=alpha_min)
    assert again == pytest.approx(weights[order], rel=1e-9, abs=1e-12)


@given(members=members)
def test_weights_rise_or_fall_with_the_divergence(members):
    found, sizes = np.array(members, dtype=float).T
    sizes += 1
    order = np.argsort(found, kind="stable")
    assert (np.diff(pooled_weights(found, sizes, direction="aligned")[order]) <= 1e-15).all()
    if found.max() > 1e-9:
        assert (np.diff(pooled_weights(found, sizes)[order]) >= -1e-15).all()


def test_aligned_weights():
    assert pooled_weights([0, 1, 3, 2], [1, 9, 5, 0], direction="aligned") == pytest.approx([4 / 7, 2 / 7, 1 / 7, 0])
    assert pooled_weights([0, 0], [1, 9], direction="aligned").tolist() == [0.5, 0.5]


def test_no_divergence_gives_data_sizes():
    assert pooled_weights([0, 0, 0], [1, 3, 0]).tolist() == [0.25, 0.75, 0]
    assert pooled_weights([4e-13, 5e-13], [1, 3]).tolist() == [0.25, 0.75]
    assert pooled_weights([0, 2e-12], [1, 3]).tolist() == [0, 1]


def test_negative_divergences_count_as_none():
    assert pooled_weights([-1e-5, 1, 3], [9, 1, 1]).tolist() == [0, 0.25, 0.75]
    assert pooled_weights([-1e-5, -2e-5], [1, 3]).tolist() == [0.25, 0.75]


def test_those_present_without_weight_get_data_sizes():
    assert pooled_weights([0, 0, 5], [1, 3, 2], present=[0, 1]).tolist() == [0.25, 0.75, 0]
    assert pooled_weights([0, 1, 5], [0, 3, 2], present=[0]).tolist() == [1, 0, 0]
    assert pooled_weights([0, 0, 5], [0, 0, 2], present=[0, 1]).tolist() == [0.5, 0.5, 0]


def test_least_weight():
    assert pooled_weights([0, 1, 3, 0], [5, 5, 5, 0], alpha_min=0.1) == pytest.approx([0.1, 0.275, 0.625, 0])
    assert pooled_weights([0, 1, 3], [5, 5, 5], alpha_min=1 / 3) == pytest.approx([1 / 3] * 3)
    assert pooled_weights([0, 1, 3], [5, 5, 5], alpha_min=0.1, present=[0, 1]) == pytest.approx([4 / 15, 11 / 15, 0])


@pytest.mark.parametrize(
    ("mode", "vector", "says"),
    [
        ("smoothed", [5, 1, np.nan, 1], "summary 1: number 2 of a mixture is nan"),
        ("paper", [5, 1, 0, -1], "summary 1: the variances"),
        ("authors", [5, 1], "summary 1: a mixture of m >= 1"),
        ("smoothed", [5, 1, 3.5, 1], "summary 1: the means are [3.5]"),
        ("authors", [5, 1, -1e300, 1], "from 0 to 3"),
    ],
)
def test_a_bad_mixture_is_refused_by_number(mode, vector, says):
    with pytest.raises(DataError) as caught:
        pooled_divergences([WIDE, np.array(vector)], 4, mode=mode)
    assert says in str(caught.value)


@pytest.mark.parametrize("counts", [[1, 2], [1, -1, 0], [1e301, 0, 0], [1, np.nan, 0], [[1, 2, 3]], ["a", "b", "c"]])
def test_bad_counts_are_refused_by_number(counts):
    with pytest.raises(DataError, match="summary 1 must be"):
        pooled_divergences([np.ones(3), np.array(counts)], 3, mode="histogram")


@pytest.mark.parametrize("labels", [[3], [-1], [0.5], [True]])
def test_labels_are_classes(labels):
    with pytest.raises(DataError, match="labels must be whole numbers from 0 to 2"):
        pooled_divergences([WIDE], 3, mode="authors", labels=labels)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"mode": "histograms"}, "did you mean 'histogram'"),
        ({"smoothing": -0.1}, "smoothing = -0.1"),
        ({"smoothing": np.nan}, "smoothing = nan"),
        ({"classes": 0}, "classes = 0"),
    ],
)
def test_bad_options(option, says):
    with pytest.raises(ConfigError) as caught:
        pooled_divergences(**{"summaries": [WIDE], "classes": 3} | option)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"direction": "align"}, ConfigError, "did you mean 'aligned'"),
        ({"alpha_min": 0.51}, ConfigError, "among 2 clients it must be from 0 to 0.5"),
        ({"alpha_min": -0.1}, ConfigError, "alpha_min = -0.1"),
        ({"alpha_min": np.nan}, ConfigError, "alpha_min = nan"),
        ({"present": [3]}, DataError, "present must be whole numbers from 0 to 2"),
        ({"present": []}, DataError, "no client is present"),
        ({"divergences": [1, 2, np.inf]}, DataError, "divergences must be a vector of finite numbers"),
        ({"sizes": [1, 2]}, DataError, "3 divergences and 2 sizes"),
        ({"sizes": [1, 2, -1]}, DataError, "found -1.0"),
    ],
)
def test_bad_weights(arguments, error, says):
    with pytest.raises(error) as caught:
        pooled_weights(**{"divergences": [1, 2, 0], "sizes": [5, 5, 0]} | arguments)
    assert says in str(caught.value)


@pytest.mark.parametrize("mode", ["smoothed", "paper", "printed", "histogram", "authors"])
def test_a_neighbourhood_that_comes_again_is_the_same(mode, monkeypatch):
    """What is kept of a small neighbourhood, and what is computed anew of a large one; nobody can change it."""
    counts = np.array([[4.0, 2.0, 0.0], [0.0, 3.0, 1.0], [1.0, 1.0, 5.0]])
    summaries = list(counts) if mode == "histogram" else [fit(row).to_vector() for row in counts]
    first, far = pooling_weights(summaries, 3, mode=mode, labels=[0, 1])
    again, same = pooling_weights([summary.copy() for summary in summaries], 3, mode=mode, labels=[0, 1])
    assert (again.tolist(), same.tolist()) == (first.tolist(), far.tolist())
    with pytest.raises(ValueError, match="read-only"):
        far[0] = 0.0
    monkeypatch.setattr("entrofed.info.pooling.NEIGHBOURS", 2)
    anew, computed = pooling_weights(summaries, 3, mode=mode, labels=[0, 1])
    assert (anew.tolist(), computed.tolist()) == (first.tolist(), far.tolist())


def test_a_neighbourhood_of_no_numbers_is_refused():
    with pytest.raises(DataError, match="something else"):
        pooling_weights([np.array([1, 1, 0, 1], object), np.zeros(1)], 3)
