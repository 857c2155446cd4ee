from dataclasses import asdict, fields, replace
from math import inf, isnan, log
from typing import get_args

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.errors import ConfigError, DataError
from entrofed.info.bounds import (
    SMOOTHING,
    Alignment,
    InfoDivTerms,
    Sources,
    alignment_error,
    covers,
    cross_entropies,
    participation_factors,
)
from entrofed.info.divergence import cross_entropy, kl
from entrofed.info.entropy import entropy, entropy_of_counts
from entrofed.info.theorems import ASSUMPTIONS, ERRATA, READINGS, Basis, Theorem


def infodiv_terms(counts, participants, cohort, weights):
    return Sources(counts, participants).terms(cohort, weights)


HAND = [[8, 0], [0, 8], [4, 4], [1, 3]]
LN2 = log(2)
H13 = log(4) - 0.75 * log(3)  # entropy of (1/4, 3/4)


@st.composite
def tables(draw, empty=False):
    shape = draw(st.tuples(st.integers(1, 7), st.integers(1, 5)))
    counts = draw(arrays(np.int64, shape, elements=st.one_of(st.just(0), st.integers(0, 300))))
    if not empty:
        counts[counts.sum(axis=1) == 0, 0] = 1
    return counts


@st.composite
def rounds(draw):
    """Counts, participants, cohort, weights; some clients may be empty, but none of the cohort."""
    counts = draw(tables(empty=True))
    full = np.flatnonzero(counts.sum(axis=1)).tolist()
    assume(full)
    participants = draw(st.permutations(range(len(counts))))[: draw(st.integers(1, len(counts)))]
    may = [client for client in participants if client in full]
    assume(may)
    cohort = draw(st.permutations(may))[: draw(st.integers(1, len(may)))]
    raw = draw(arrays(np.float64, len(cohort), elements=st.floats(0.01, 1)))
    return counts, participants, cohort, raw / raw.sum()


def approx(terms):
    return pytest.approx(asdict(terms), rel=1e-9, abs=1e-12, nan_ok=True)


def smooth(row):
    total = sum(row)
    return [(1 - SMOOTHING) * x / total + SMOOTHING / len(row) for x in row]


def plain(counts, participants, cohort, weights):
    """The formulas with loops."""
    counts = np.asarray(counts).tolist()
    everybody = [i for i, row in enumerate(counts) if sum(row)]
    among = [i for i in participants if i in everybody]
    left = [i for i in among if i not in cohort]
    N, M, K = len(everybody), len(among), len(cohort)
    p = {i: [x / sum(counts[i]) for x in counts[i]] for i in everybody}

    def h(i):
        return -sum(x * log(x) for x in p[i] if x)

    def cross(i, j):
        return -sum(x * log(y) for x, y in zip(smooth(counts[i]), smooth(counts[j]), strict=True))

    def reaches(i, j):
        return all(counts[j][c] for c, x in enumerate(counts[i]) if x)

    def nearest(i, others):
        return min((cross(i, j) for j in others if j != i), default=inf)

    gaps = [min(cross(i, j) - cross(i, i) for j in cohort) for i in left]
    n = [sum(counts[i]) for i in cohort]
    weighted = sum(a * h(i) for a, i in zip(weights, cohort, strict=True))
    return InfoDivTerms(
        clients=N,
        participants=M,
        selected=K,
        weighted_entropy=weighted,
        joint_entropy=sum(map(h, everybody)),
        participant_entropy=sum(map(h, among)),
        participation_gap=3 * sum(map(h, everybody)) - weighted,
        absent=(N - M) / N,
        participation_factor=3 - 2 * M / N,
        selection_factor=2 - 2 * K / M - 1 / K,
        unselected_cross_entropy=sum(nearest(i, among) for i in left) / K,
        cohort_cross_entropy=sum(nearest(i, cohort) for i in left) / K,
        redundancy_gap=sum(gaps) / len(gaps) if gaps else 0.0,
        selected_cross_entropy=sum(nearest(i, among) for i in cohort) / K if M > 1 else float("nan"),
        selected_spread=sum(cross(i, j) for i in cohort for j in among) / (K * M),
        collision=sum(x * x for i in cohort for x in p[i]),
        samples=sum(n),
        effective_samples=1 / sum(a * a / size for a, size in zip(weights, n, strict=True)),
        weight_spread=max(abs(a - 1 / K) for a in weights),
        uncovered=sum(not any(reaches(i, j) for j in among if j != i) for i in left),
        uncovered_by_cohort=sum(not any(reaches(i, j) for j in cohort) for i in left),
    )


def test_one_round_by_hand():
    """Clients 0 and 1 have one label each, 2 has both, 3 is absent; 0 and 1 are selected."""
    q0, q1 = 0.995, 0.005  # smoothed (1, 0)
    mixed_to_pure = -(log(q0) + log(q1)) / 2
    assert asdict(infodiv_terms(HAND, [0, 1, 2], [0, 1], [0.75, 0.25])) == approx(
        InfoDivTerms(
            clients=4,
            participants=3,
            selected=2,
            weighted_entropy=0,
            joint_entropy=LN2 + H13,
            participant_entropy=LN2,
            participation_gap=3 * (LN2 + H13),
            absent=0.25,
            participation_factor=1.5,
            selection_factor=2 - 4 / 3 - 0.5,
            unselected_cross_entropy=mixed_to_pure / 2,
            cohort_cross_entropy=mixed_to_pure / 2,
            redundancy_gap=mixed_to_pure - LN2,
            selected_cross_entropy=LN2,  # to client 2
            selected_spread=(LN2 - q0 * log(q0) - q1 * log(q1) - q0 * log(q1) - q1 * log(q0)) / 3,
            collision=2,
            samples=16,
            effective_samples=12.8,  # 8 / (0.75^2 + 0.25^2)
            weight_spread=0.25,
            uncovered=1,
            uncovered_by_cohort=1,
        )
    )


def test_another_cohort_by_hand():
    terms = infodiv_terms(HAND, [0, 1, 2], [2], [1.0])
    assert terms.weighted_entropy == pytest.approx(LN2, rel=1e-12)
    assert terms.cohort_cross_entropy == pytest.approx(2 * LN2, rel=1e-12)
    assert terms.redundancy_gap == pytest.approx(LN2 + 0.995 * log(0.995) + 0.005 * log(0.005), rel=1e-12)
    assert (terms.uncovered, terms.uncovered_by_cohort) == (0, 0)


@given(one=rounds())
def test_the_plain_loops_agree(one):
    assert asdict(infodiv_terms(*one)) == approx(plain(*one))


@given(one=rounds(), data=st.data())
def test_numbers_of_clients_and_their_order_do_not_matter(one, data):
    counts, participants, cohort, weights = one
    order = data.draw(st.permutations(range(len(counts))))  # client order[i] becomes i
    new = {old: i for i, old in enumerate(order)}
    turned = data.draw(st.permutations(range(len(cohort))))
    found = infodiv_terms(
        counts[order], sorted(new[i] for i in participants), [new[cohort[i]] for i in turned], weights[turned]
    )
    assert asdict(found) == approx(infodiv_terms(*one))


@given(one=rounds(), factor=st.integers(2, 50))
def test_only_frequencies_matter_apart_from_sample_counts(one, factor):
    counts, *others = one
    before, after = infodiv_terms(counts, *others), infodiv_terms(counts * factor, *others)
    assert after.samples == before.samples * factor
    assert after.effective_samples == pytest.approx(before.effective_samples * factor, rel=1e-9)
    same = replace(after, samples=before.samples, effective_samples=before.effective_samples)
    assert asdict(same) == approx(before)


@given(row=arrays(np.int64, 4, elements=st.integers(0, 99)).filter(np.any), clients=st.integers(2, 8), data=st.data())
def test_equal_clients_are_redundant(row, clients, data):
    counts = row * np.array(data.draw(st.lists(st.integers(1, 9), min_size=clients, max_size=clients)))[:, None]
    terms = infodiv_terms(counts, range(clients), [0], [1.0])
    assert terms.redundancy_gap == pytest.approx(0, abs=1e-12)
    assert (terms.uncovered, terms.uncovered_by_cohort) == (0, 0)
    own = float(entropy(smooth(row.tolist())))
    assert terms.cohort_cross_entropy == pytest.approx((clients - 1) * own, rel=1e-9, abs=1e-12)
    assert terms.unselected_cross_entropy == pytest.approx(terms.cohort_cross_entropy, rel=1e-9, abs=1e-12)


@given(counts=tables())
def test_cross_entropies_are_those_of_smoothed_distributions(counts):
    q = np.array([smooth(row) for row in counts.tolist()])
    found = cross_entropies(counts)
    assert found == pytest.approx(cross_entropy(q[:, None], q[None]), rel=1e-9, abs=1e-12)
    assert found.diagonal() == pytest.approx(entropy(q), rel=1e-9, abs=1e-12)
    assert (found >= entropy(q)[:, None] - 1e-12).all()
    assert (found >= entropy_of_counts(counts)[:, None] - 1e-12).all()


@given(counts=tables(), smoothing=st.floats(1e-6, 1))
def test_smoothing_never_overstates_a_difference(counts, smoothing):
    p = counts / counts.sum(axis=1, keepdims=True)
    cross = cross_entropies(counts, smoothing=smoothing)
    smoothed = cross - cross.diagonal()[:, None]
    true = kl(p[:, None], p[None])
    assert (smoothed <= true + 1e-9).all()
    assert (np.isfinite(true) == covers(counts)).all()


@given(one=rounds())
def test_bounds_of_the_terms(one):
    counts, *_ = one
    terms = infodiv_terms(*one)
    assert 0 <= terms.weighted_entropy <= log(counts.shape[1]) + 1e-12
    assert terms.unselected_cross_entropy <= terms.cohort_cross_entropy + 1e-12
    assert terms.uncovered <= terms.uncovered_by_cohort <= terms.participants - terms.selected
    assert 0 < terms.effective_samples <= terms.samples * (1 + 1e-9)
    assert 0 <= terms.redundancy_gap <= log(counts.shape[1] / SMOOTHING)


@given(one=rounds())
def test_theorem_1_is_never_below_twice_what_holds_without_it(one):
    terms = infodiv_terms(*one)
    assert terms.participation_gap >= 2 * terms.joint_entropy - 1e-9


def test_theorem_2_is_below_what_holds_without_it_only_if_everybody_is_selected():
    for N in range(1, 30):
        for M in range(1, N + 1):
            for K in range(1, M + 1):
                first, second = participation_factors(N, M, K)
                assert (second < -1e-12) == (K == M)
                # H(Z^I) = 1 and 0 <= H(Z^Ip) <= 1: a linear function is smallest at an end
                assert (min(first, first + second) < 1 - 1e-12) == (K == M == N)


def test_selecting_by_section_421_minimises_the_term_of_the_unselected():
    counts = np.random.default_rng(3).integers(0, 20, (6, 4))
    sources = Sources(counts, range(6))
    cohorts = [[i, j] for i in range(6) for j in range(i)]
    found = [sources.terms(cohort, [0.5, 0.5]) for cohort in cohorts]
    totals = [terms.selected_cross_entropy + terms.unselected_cross_entropy for terms in found]
    assert totals == pytest.approx([totals[0]] * len(totals), rel=1e-12)
    assert len({round(terms.selected_cross_entropy, 9) for terms in found}) > 1


@pytest.mark.parametrize("clients", [1, 3])
def test_nobody_left_out(clients):
    counts = HAND[1 : clients + 1]
    terms = infodiv_terms(counts, range(clients), range(clients), [1 / clients] * clients)
    assert terms.unselected_cross_entropy == terms.cohort_cross_entropy == terms.redundancy_gap == 0
    assert (terms.uncovered, terms.uncovered_by_cohort, terms.absent) == (0, 0, 0)
    assert terms.selection_factor == -1 / clients
    assert isnan(terms.selected_cross_entropy) == (clients == 1)


def test_an_empty_client_counts_nowhere():
    counts = [*HAND, [0, 0]]
    assert infodiv_terms(counts, [0, 1, 2, 4], [0], [1.0]) == infodiv_terms(HAND, [0, 1, 2], [0], [1.0])
    assert np.isnan(cross_entropies(counts)[4]).all()
    assert np.isnan(cross_entropies(counts)[:, 4]).all()
    assert np.isfinite(cross_entropies(counts)[:4, :4]).all()
    halves = Sources(HAND, [0, 1, 2]).terms([0, 2], [0.5, 0.5])
    assert halves.weighted_entropy == pytest.approx(LN2 / 2, rel=1e-12)


@pytest.mark.parametrize(
    ("counts", "participants", "cohort", "weights", "says"),
    [
        (HAND, [0, 1], [0, 1], [0.5, 0.4], "weights sums to 0.9, not 1"),
        (HAND, [0, 1], [0, 1], [1.5, -0.5], "weights[1] = -0.5"),
        (HAND, [0, 1], [0, 1], [1.0], "one for each of 2 clients, found shape (1,)"),
        (HAND, [0, 1], [0, 2], [0.5, 0.5], "these are not: [2]"),
        (HAND, [0, 1], [], [], "cohort must be a list of at least one client number, found []"),
        (HAND, [0, 1], [0, 0], [0.5, 0.5], "cohort must be distinct numbers from 0 to 3, found [0, 0]"),
        (HAND, [0, 4], [0], [1.0], "participants must be distinct numbers from 0 to 3, found [0, 4]"),
        (HAND, [0.0, 1.0], [0], [1.0], "participants must be a list"),
        (HAND, [-1, 0], [0], [1.0], "participants must be distinct numbers from 0 to 3, found [-1, 0]"),
        ([[1, 0], [0, 0]], [0, 1], [1], [1.0], "these are not: [1]"),
        ([[1, 0], [0, 0]], [1], [1], [1.0], "no participant holds data"),
        ([[1, 0], [0, -1]], [0], [0], [1.0], "label_counts[1, 1] = -1.0"),
        ([[1, np.nan]], [0], [0], [1.0], "label_counts[0, 1] = nan"),
        ([1, 2], [0], [0], [1.0], "clients x classes, found shape (2,)"),
    ],
)
def test_refused(counts, participants, cohort, weights, says):
    with pytest.raises(DataError) as error:
        infodiv_terms(counts, participants, cohort, weights)
    assert says in str(error.value)


@pytest.mark.parametrize("smoothing", [0, -1, 1.1, np.nan])
def test_smoothing_is_a_share(smoothing):
    with pytest.raises(ConfigError, match=r"smoothing = .* must be above 0 and at most 1"):
        cross_entropies(HAND, smoothing=smoothing)


def test_factors_need_their_order():
    with pytest.raises(DataError, match="found K = 3, M = 2, N = 4"):
        participation_factors(4, 2, 3)


def test_inputs_stay_as_they_were():
    counts = np.array(HAND, np.float64)
    weights = np.array([0.5, 0.5])
    infodiv_terms(counts, np.arange(3), np.array([0, 1]), weights)
    assert counts.tolist() == HAND
    assert weights.tolist() == [0.5, 0.5]


def test_alignment_by_hand():
    found = alignment_error([3.0, 4.0], [-4.0, 3.0], lr=0.5)  # s + g/2 = (1, 5.5)
    assert asdict(found) == approx(Alignment(error=31.25, cosine=0.0, step=5.0, gradient=5.0, stretch=2.0))
    found = alignment_error([3.0, 4.0], [3.0, 4.0], lr=1.0)
    assert asdict(found) == approx(Alignment(error=100.0, cosine=-1.0, step=5.0, gradient=5.0, stretch=1.0))


vectors = st.integers(1, 6).flatmap(lambda n: st.tuples(*[arrays(np.float64, n, elements=st.floats(-100, 100))] * 2))


@given(pair=vectors, lr=st.floats(1e-3, 10))
def test_alignment_is_the_law_of_cosines(pair, lr):
    step, gradient = pair
    assume(np.linalg.norm(step) > 1e-3 and np.linalg.norm(gradient) > 1e-3)
    found = alignment_error(step, gradient, lr)
    a, b = found.step, lr * found.gradient
    assert found.error == pytest.approx(a * a + b * b - 2 * a * b * found.cosine, rel=1e-9, abs=1e-9 * (a + b) ** 2)
    assert (a - b) ** 2 <= found.error + 1e-9 * (a + b) ** 2
    scaled = alignment_error(7 * step, 3 * gradient, lr)
    assert scaled.cosine == pytest.approx(found.cosine, rel=1e-9, abs=1e-12)


@given(steps=st.integers(1, 100), lr=st.floats(1e-3, 1))
def test_many_equal_steps_are_far_off_though_aligned(steps, lr):
    gradient = np.array([0.3, -0.4])
    found = alignment_error(-steps * lr * gradient, gradient, lr)
    assert found.error == pytest.approx((steps - 1) ** 2 * lr**2 * 0.25, rel=1e-9, abs=1e-20)
    assert (found.cosine, found.stretch) == pytest.approx((1, steps), rel=1e-12)


def test_float32_is_summed_in_float64():
    step = np.full(10**6, 1e-3, np.float32)
    found = alignment_error(step, -step, lr=2.0)
    exact = 1e6 * float(np.float32(1e-3)) ** 2
    rounding = 1e6 * np.finfo(np.float64).eps  # of a million sums one after the other, as some libraries do it
    assert found.error == pytest.approx(exact, rel=rounding)
    assert found.cosine == pytest.approx(1, rel=rounding)


def test_zero_vectors_have_no_direction():
    still = alignment_error([0.0, 0.0], [3.0, 4.0], lr=0.1)
    assert (still.error, still.stretch) == pytest.approx((0.25, 0), rel=1e-12)
    assert isnan(still.cosine)
    flat = alignment_error([3.0, 4.0], [0.0, 0.0], lr=0.1)
    assert flat.error == 25
    assert isnan(flat.cosine)
    assert isnan(flat.stretch)


@pytest.mark.parametrize(
    ("step", "gradient", "lr", "error", "says"),
    [
        ([1.0], [1.0, 2.0], 0.1, DataError, r"shapes \(1,\) and \(2,\)"),
        ([[1.0]], [[1.0]], 0.1, DataError, "must be vectors"),
        ([np.inf], [1.0], 0.1, DataError, "must be finite"),
        ([1.0], [np.nan], 0.1, DataError, "must be finite"),
        ([1.0], [1.0], 0.0, ConfigError, "lr = 0.0, but must be a positive number"),
        ([1.0], [1.0], np.nan, ConfigError, "lr = nan"),
    ],
)
def test_alignment_refuses(step, gradient, lr, error, says):
    with pytest.raises(error, match=says):
        alignment_error(step, gradient, lr)


def test_every_term_has_words():
    names = [one.name for kind in (InfoDivTerms, Alignment) for one in fields(kind)]
    assert sorted(names) == sorted(READINGS)
    assert len({name for name, _, _ in READINGS.values()}) == len(READINGS)
    assert all(reading.endswith(".") for _, _, reading in READINGS.values())


def test_every_theorem_has_assumptions_and_errata():
    for theorem in get_args(Theorem):
        mine = [one for one in ASSUMPTIONS if theorem in one.theorems]
        assert {one.checkable for one in mine} == {True, False}
        assert any(theorem in one.theorems for one in ERRATA)
    assert {one.basis for one in ERRATA} == set(get_args(Basis))
    for constant in ("b is not known", "L is not known", "sigma_K is not known", "constant c"):
        assert any(constant in one.how and not one.checkable for one in ASSUMPTIONS)


def test_what_is_said_of_fedeps_analysis_is_so():
    """F(x) = L x^2 has equality in (15) and a gradient with constant 2L; (19) has its minimum elsewhere."""
    rng = np.random.default_rng(0)
    smooth, (x, y) = 1.5, rng.normal(size=(2, 100))
    np.testing.assert_allclose(smooth * y**2, smooth * x**2 + 2 * smooth * x * (y - x) + smooth * (y - x) ** 2)
    np.testing.assert_allclose(np.abs(2 * smooth * x - 2 * smooth * y), 2 * smooth * np.abs(x - y))
    best = np.array([0.0, 0.0, 3.0])
    assert np.array([1 / 6, 1 / 6, 2 / 3]) @ best == pytest.approx(2)
    assert best.mean() == 1
