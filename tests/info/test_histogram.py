from math import inf, log, nan

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from entrofed.errors import ConfigError, DataError
from entrofed.info.histogram import (
    BLOCK,
    count_between,
    count_equal,
    divergence_weights,
    equal_bins,
    fd_bins,
    quantile_edges,
    smoothed,
    weight_divergences,
)

BINNINGS = ["minmax", "quantile", "fd"]
dtypes = st.sampled_from([np.float32, np.float64])
dyadic = st.integers(-64, 64).map(lambda n: n / 16)
divergences = st.lists(st.floats(0, 30), min_size=1, max_size=8).map(np.array)


def plain_bins(values, edges):
    """The definition, one value at a time."""
    counts = [0] * (len(edges) - 1)
    for value in values:
        counts[max(i for i, edge in enumerate(edges[:-1]) if edge <= value)] += 1
    return counts


@st.composite
def ranges(draw, dtype):
    """Two finite numbers of a type, of all sizes; or few numbers apart; or hardly above 0."""
    info = np.finfo(dtype)
    number = st.floats(float(info.min), float(info.max), width=info.bits).map(dtype)
    steps = st.integers(0, 3000)
    kind = draw(st.sampled_from(["any", "usual", "narrow", "tiny"]))
    if kind == "any":
        low, high = sorted([draw(number), draw(number)])
    elif kind == "usual":
        low, high = sorted(dtype(draw(st.floats(-10, 10))) for _ in range(2))
    elif kind == "narrow":
        low = dtype(draw(st.floats(-10, 10)))
        high = low + dtype(draw(steps)) * np.spacing(np.abs(low))
    else:
        low, high = sorted(dtype(draw(steps) * sign) * info.smallest_subnormal for sign in (-1, 1))
    with np.errstate(over="ignore"):
        assume(np.isfinite(high - low))
    return low, high


@st.composite
def equal_bin_problems(draw):
    """Values on edges, next to edges and elsewhere, with the range in several types."""
    dtype = draw(dtypes)
    low, high = draw(ranges(dtype))
    of = draw(st.sampled_from([float, np.float64, dtype]))
    bins = draw(st.one_of(st.integers(1, 1000), st.sampled_from([1, 2, 3, 10, 64, 100, 999, 1000])))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    edges = equal_bins(of(low), of(high), bins, dtype).astype(dtype)
    between = rng.uniform(0, 1, 50).astype(dtype) * (high - low) + low
    with np.errstate(over="ignore"):
        values = np.concatenate([edges, np.nextafter(edges, dtype(-inf)), np.nextafter(edges, dtype(inf)), between])
    return np.clip(values, low, high)[: draw(st.integers(1, 4000))], of(low), of(high), bins


@given(problem=equal_bin_problems())
@example(problem=(np.array([1, 2, 2], np.float32), 1.0, 2.0, 1))
@example(problem=(np.full(3, 2.0), 2.0, 2.0, 7))
@example(problem=(np.array([0, 1e308, np.finfo(float).max]), 0.0, np.finfo(float).max, 3))
@example(problem=(np.arange(1235) * 5e-324, 0.0, 1234 * 5e-324, 100))  # edges up to three bins off
def test_equal_bins_count_as_numpy_does(problem):
    values, low, high, bins = problem
    try:
        # numpy's last edge, before it is set to high; edges that its earlier versions do not refuse
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            expected, edges = np.histogram(values, bins=bins, range=(low, high))
        if not (edges[:-1] < edges[1:]).all():
            raise ValueError("Too many bins")  # as later versions of numpy do
    except ValueError as error:
        assert "Too many bins" in str(error)  # noqa: PT017
        edges = np.maximum.accumulate(equal_bins(low, high, bins, values.dtype))
        expected = np.array(plain_bins(values, edges)) if low < high else None
    found = count_equal(values, low, high, bins)
    assert found.dtype == np.int64
    assert found.sum() == len(values)
    if expected is not None:
        np.testing.assert_array_equal(found, expected)
    if low < high:
        assert edges.dtype == equal_bins(low, high, bins, values.dtype).dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bins", [1, 100, 1000])
def test_equal_bins_of_more_values_than_a_block(dtype, bins):
    values = np.random.default_rng(3).normal(0.01, 0.1, 2 * BLOCK + 77).astype(dtype)
    low, high = values.min(), values.max()
    for of in (float, np.float64, dtype):
        expected = np.histogram(values, bins=bins, range=(of(low), of(high)))[0]
        np.testing.assert_array_equal(count_equal(values, of(low), of(high), bins), expected)
    every_third = values[::3]
    expected = np.histogram(every_third, bins=bins, range=(low, high))[0]
    np.testing.assert_array_equal(count_equal(every_third, low, high, bins), expected)


def test_a_range_of_a_few_numbers_has_bins_without_width():
    values = np.array([1, np.nextafter(1, 2)])
    counts = count_equal(values, values[0], values[1], 100)
    assert counts.sum() == 2
    assert counts.max() == 1
    np.testing.assert_array_equal(count_equal(np.full(4, np.float32(1e20)), 1e20, 1e20, 5).sum(), 4)
    assert count_equal(np.array([]), 0.0, 1.0, 3).tolist() == [0, 0, 0]


@given(
    dtype=dtypes,
    values=st.lists(dyadic, min_size=1, max_size=60),
    inner=st.lists(dyadic, max_size=12, unique=True).map(sorted),
)
def test_given_edges_count_by_definition(dtype, values, inner):
    values, edges = np.array(values, dtype), np.array([-inf, *inner, inf])
    assert count_between(values, edges).tolist() == plain_bins(values, edges)


@given(dtype=dtypes, values=st.lists(dyadic, min_size=1, max_size=60), bins=st.sampled_from([1, 2, 4, 16, 64]))
def test_quantile_edges_are_interpolated(dtype, values, bins):
    ordered, last = sorted(values), len(values) - 1
    quantiles = set()
    for i in range(bins + 1):
        below, part = divmod(i * last, bins)
        quantiles.add(ordered[below] + (ordered[min(below + 1, last)] - ordered[below]) * part / bins)
    assert quantile_edges(np.array(values, dtype), bins).tolist() == [-inf, *sorted(quantiles)[1:-1], inf]


def test_quantile_edges_of_distinct_and_of_equal_values():
    assert quantile_edges(np.arange(101.0), 10).tolist() == [-inf, 10, 20, 30, 40, 50, 60, 70, 80, 90, inf]
    assert quantile_edges(np.array([0, 0, 0, 0, 1.0]), 4).tolist() == [-inf, inf]
    assert quantile_edges(np.array([-1, 0, 0, 0, 1.0]), 4).tolist() == [-inf, 0, inf]
    assert quantile_edges(np.full(5, 3.0), 4).tolist() == [-inf, inf]
    counts = count_between(values := np.random.default_rng(0).normal(size=1000), quantile_edges(values, 10))
    assert counts.tolist() == [100] * 10


def test_freedman_diaconis():
    values = np.arange(1000.0)  # IQR 499.5, width 99.9
    assert fd_bins(values, 0.0, 999.1) == 11
    assert fd_bins(values, 0.0, 998.9) == 10
    assert fd_bins(values, 0.0, 1.0) == 10
    assert fd_bins(values, 0.0, 99.9 * 800.5) == 801
    assert fd_bins(values, 0.0, 1e300) == 1000
    assert fd_bins(np.array([0, 1, 1, 1, 1, 1, 9.0]), 0.0, 9.0) == 1000
    assert fd_bins(np.array([0.0, 5e-324, 5e-324 * 2]), 0.0, 1.0) == 1000


def test_smoothing():
    assert smoothed([1, 3]).tolist() == [0.25, 0.75]
    assert smoothed([[2, 0], [5, 5]]) == pytest.approx(np.array([[1 / (1 + 1e-12), 1e-12 / (1 + 1e-12)], [0.5, 0.5]]))
    assert smoothed([2, 0])[1] == pytest.approx(1e-12, rel=1e-9)
    with pytest.raises(DataError, match="without any value"):
        smoothed([0, 0])


def exactly(expected):
    return pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_four_bins_one_client_equal_to_the_reference():
    g, b = np.array([-1, -0.5, 0, 0.5, 1]), np.array([-1.0, -1, 0, 1, 1])
    far = weight_divergences(g, [g, b], bins=4)
    assert far == exactly([0, 0.277258872196679])
    weights = divergence_weights(far)
    assert weights == exactly([0.560875571851265, 0.439124428148735])
    assert weights @ [g, b] == exactly([-1, -0.719562214074367, 0, 0.719562214074367, 1])
    far = weight_divergences(g, [g, b], bins=4, divergence="js")
    assert far == exactly([0, 0.0863046217223125])
    assert divergence_weights(far) == exactly([0.520683609867831, 0.479316390132169])


def test_four_bins_with_one_that_the_reference_lacks():
    g = np.array([0, 0, 0, 1.0])
    far = weight_divergences(g, [np.array([0, 0, 0.5, 1]), g], bins=4)
    assert far == exactly([6.35844913464272, 0])
    assert divergence_weights(far) == exactly([0.119639419214189, 0.880360580785811])


def test_hundred_bins():
    i = np.arange(500)
    g = np.sin(0.37 * i) * (1 + i / 500)
    rows = [0.9 * g, g + 0.05, g * np.abs(g)]
    far = weight_divergences(g, rows)
    assert far == exactly([0.16549134824812, 0.1385232414985, 5.210058420659])
    assert divergence_weights(far) == exactly([0.45220939860993, 0.46292084558825, 0.084869755801819])
    shares = divergence_weights(far, weighting="one_minus_share")
    assert shares == exactly([0.4849937289608, 0.48743911794085, 0.027567153098346])
    far = weight_divergences(g, rows, divergence="js")
    assert far == exactly([0.04438866052648, 0.035676118857484, 0.15328714031444])


@st.composite
def models(draw):
    """A reference and some clients with dyadic values, so that common affine maps are exact."""
    size, clients = draw(st.integers(2, 40)), draw(st.integers(1, 4))
    vector = st.lists(dyadic, min_size=size, max_size=size)
    reference, *rows = (np.array(draw(vector), draw(dtypes)) for _ in range(clients + 1))
    return reference, rows


options = st.fixed_dictionaries(
    {
        "bins": st.sampled_from([1, 2, 4, 8, 16, 128]),
        "binning": st.sampled_from(BINNINGS),
        "divergence": st.sampled_from(["kl", "js"]),
    }
)


@given(models=models(), options=options, seed=st.integers(0, 99))
def test_order_inside_a_model_is_irrelevant(models, options, seed):
    reference, rows = models
    rng = np.random.default_rng(seed)
    shuffled = weight_divergences(rng.permutation(reference), [rng.permutation(row) for row in rows], **options)
    np.testing.assert_array_equal(shuffled, weight_divergences(reference, rows, **options))


@given(models=models(), options=options, scale=st.sampled_from([0.125, 0.5, 2, 16]), shift=dyadic)
def test_a_common_affine_map_changes_nothing(models, options, scale, shift):
    reference, rows = models
    if options["binning"] == "fd":
        shift = 0  # the number of bins is not a power of 2: shifted edges are rounded
    moved = [(v * scale + shift).astype(v.dtype) for v in (reference, *rows)]
    found = weight_divergences(moved[0], moved[1:], **options)
    np.testing.assert_array_equal(found, weight_divergences(reference, rows, **options))


@given(models=models(), options=options.filter(lambda o: o["binning"] == "minmax"))
def test_a_vector_twice_is_as_good_as_once(models, options):
    reference, rows = models
    twice = weight_divergences(np.tile(reference, 2), [np.tile(row, 2) for row in rows], **options)
    np.testing.assert_array_equal(twice, weight_divergences(reference, rows, **options))


@given(models=models(), options=options)
def test_divergences_are_not_negative_and_the_reference_itself_weighs_most(models, options):
    reference, rows = models
    far = weight_divergences(reference, [*rows, reference], **options)
    assert (far >= 0).all()
    assert far[-1] == 0
    if options["divergence"] == "js":
        assert (far <= log(2)).all()
    assert divergence_weights(far)[-1] == divergence_weights(far).max()


@given(models=models(), options=options)
def test_each_client_for_itself_in_common_bins(models, options):
    """The order of the clients, and how often one is there, is irrelevant to the others."""
    reference, rows = models
    far = weight_divergences(reference, rows, **options)
    again = weight_divergences(reference, [*rows[::-1], rows[0]], **options)
    np.testing.assert_array_equal(again, [*far[::-1], far[0]])


@pytest.mark.parametrize("binning", BINNINGS)
def test_groups_are_weighted_by_size_and_have_their_own_bins(binning):
    rng = np.random.default_rng(1)
    reference, *rows = (rng.normal(size=100).astype(np.float32) * ([1] * 70 + [30] * 30) for _ in range(4))
    parts = [slice(0, 40), slice(40, 70), slice(70, 100)]

    def joined(vector, slices):
        return np.concatenate([vector[s] for s in slices])

    def of(slices):
        return weight_divergences(
            joined(reference, slices), [joined(row, slices) for row in rows], bins=7, binning=binning
        )

    groups = [[parts[0], parts[2]], [parts[1]], [slice(5, 5)]]
    found = weight_divergences(reference, rows, segments=groups, bins=7, binning=binning)
    assert found == exactly(0.7 * of(groups[0]) + 0.3 * of(groups[1]))
    assert found != pytest.approx(of(parts))
    np.testing.assert_array_equal(
        weight_divergences(reference, rows, segments=[parts], bins=7, binning=binning), of(parts)
    )
    only = weight_divergences(reference, rows, segments=[[parts[1]]], bins=7, binning=binning)
    np.testing.assert_array_equal(only, of([parts[1]]))


def test_edges_are_not_rounded_to_the_type_of_the_values():
    reference, row = np.array([0, 0.65, 1], np.float32), np.array([0, 0.7, 1], np.float32)
    assert float(row[1]) < 0.7
    assert weight_divergences(reference, [row], bins=10).tolist() == [0]


@pytest.mark.parametrize("binning", BINNINGS)
def test_constant_and_nearly_constant_models(binning):
    ones = np.ones(5, np.float32)
    assert weight_divergences(ones, [ones, ones], binning=binning).tolist() == [0, 0]
    assert weight_divergences(ones, [], binning=binning).tolist() == []
    near = ones.copy()
    near[0] = np.nextafter(near[0], np.float32(2))
    far = weight_divergences(ones, [ones, near], binning=binning)
    assert far[0] == 0
    assert np.isfinite(far).all()
    if binning != "quantile":  # the reference has no quantile to tell the two numbers apart
        assert far[1] > 1


@pytest.mark.parametrize("binning", BINNINGS)
@pytest.mark.parametrize("bad", [nan, inf, -inf, 3.4e38])
@pytest.mark.parametrize("where", ["reference", "row"])
def test_values_or_ranges_that_are_not_finite_give_nan(binning, bad, where):
    reference, row = np.zeros(6, np.float32), np.full(6, -1e38, np.float32)
    (reference if where == "reference" else row)[2] = bad
    if where == "row":
        row[3:] = -3.4e38
    groups = [[slice(4, 6)], [slice(0, 4)]]
    for segments in (None, groups):
        far = weight_divergences(reference, [row, row], segments=segments, binning=binning)
        assert np.isnan(far).all()
        assert np.isnan(divergence_weights(far)).all()


def test_bad_arguments():
    x = np.arange(4.0)
    with pytest.raises(ConfigError, match="unknown binning 'minmx'; did you mean 'minmax'"):
        weight_divergences(x, [x], binning="minmx")
    with pytest.raises(ConfigError, match="unknown divergence"):
        weight_divergences(x, [x], divergence="tv")
    for binning in ("minmax", "quantile"):
        with pytest.raises(ConfigError, match="bins must be at least 1, found 0"):
            weight_divergences(x, [x], bins=0, binning=binning)
    with pytest.raises(DataError, match=r"row 1 has shape \(3,\), the reference \(4,\)"):
        weight_divergences(x, [x, x[1:]])
    for segments in ([], [[slice(2, 2)]]):
        with pytest.raises(DataError, match="no values to compare"):
            weight_divergences(x, [x], segments=segments)
    with pytest.raises(ConfigError, match="unknown weighting"):
        divergence_weights([1.0], weighting="inverted")
    for gamma in (-1, inf, nan):
        with pytest.raises(ConfigError, match="gamma must be finite and not negative"):
            divergence_weights([1.0], gamma=gamma)
    for far in ([], [0.5, -0.1], [[1.0]]):
        with pytest.raises(DataError, match="divergences must be a vector"):
            divergence_weights(far)


@given(far=divergences, weighting=st.sampled_from(["inverse", "one_minus_share"]), gamma=st.floats(0, 1000))
def test_weights_sum_to_one_and_follow_their_client(far, weighting, gamma):
    weights = divergence_weights(far, weighting=weighting, gamma=gamma)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert (weights >= 0).all()
    assert divergence_weights(far[::-1], weighting=weighting, gamma=gamma) == exactly(weights[::-1])
    order = np.argsort(far)
    assert (np.diff(weights[order]) <= 0).all()


@given(steps=st.lists(st.floats(1e-3, 5), min_size=2, max_size=8))
def test_weights_strictly_decrease_with_the_divergence(steps):
    far = np.cumsum(steps)
    for more in ({}, {"gamma": 3.0}, {"weighting": "one_minus_share"}):
        weights = divergence_weights(far, **more)
        assert (np.diff(weights) < 0).all()


@given(far=divergences)
def test_weights_differ_no_more_than_the_divergences_allow(far):
    weights = divergence_weights(far)
    assert weights.max() / weights.min() <= (1 + far.max()) * (1 + 1e-12)
    if len(far) > 1:
        assert divergence_weights(far, weighting="one_minus_share").max() <= 1 / (len(far) - 1)


@pytest.mark.parametrize("weighting", ["inverse", "one_minus_share"])
def test_weights_of_one_client_of_equal_clients_and_of_nan(weighting):
    assert divergence_weights([7.0], weighting=weighting).tolist() == [1]
    assert divergence_weights([0.0, 0.0, 0.0, 0.0], weighting=weighting).tolist() == [0.25] * 4
    assert np.isnan(divergence_weights([0.0, nan], weighting=weighting)).all()
    assert np.isnan(divergence_weights([nan], weighting=weighting)).all()
    assert np.isnan(divergence_weights([0.0, inf], weighting=weighting)).all()


def test_gamma_is_the_exponent():
    assert divergence_weights([0.0, 1.0], gamma=2) == exactly([0.8, 0.2])
    assert divergence_weights([0.0, 3.0], gamma=0.5) == exactly([2 / 3, 1 / 3])
    assert divergence_weights([0.0, 3.0], gamma=0).tolist() == [0.5, 0.5]
    assert divergence_weights([29.0, 30.0, 29.0], gamma=1e6).tolist() == [0.5, 0, 0.5]
