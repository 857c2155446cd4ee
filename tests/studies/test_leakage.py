"""The study of what a curious server learns."""

import numpy as np
import pytest

from entrofed.charts.studies import leakage_chart
from entrofed.cli.tables.studies import leakage_study_tables
from entrofed.core.params import Layout, TensorEntry
from entrofed.info.inference import labels_from_bias, total_variation
from entrofed.studies.leakage import output_bias, settings, study


def test_labels_from_one_step_by_hand() -> None:
    """A step of length 0.5 of a model that says (0.5, 0.3, 0.2), at a client with labels (0, 0.4, 0.6): the rises are
    0.5 (0.1, 0.4), a fifth and four fifths."""
    output, share = np.array([0.5, 0.3, 0.2]), np.array([0.0, 0.4, 0.6])
    np.testing.assert_allclose(labels_from_bias(-0.5 * (output - share)), [0, 0.2, 0.8])
    assert total_variation(output, share) == pytest.approx(0.5)
    assert labels_from_bias(np.full(3, -9.0)).tolist() == [1 / 3] * 3


def test_the_output_bias_is_the_last_of_its_shape() -> None:
    entries = [TensorEntry("a", "trainable", (3,), 0, 3), TensorEntry("w", "trainable", (3, 2), 3, 6)]
    layout = Layout((*entries, TensorEntry("b", "trainable", (3,), 9, 3)), 12, 12, 0)
    assert output_bias(layout, 3) == slice(9, 12)


@pytest.mark.slow
def test_the_study_shows_what_each_protection_hides() -> None:
    rows = study(clients=8, rounds=3, seeds=1)
    found = {row["setting"]: row for row in rows}
    assert list(found) == list(settings(8, 8.0, 0.5))
    nothing, secure = found["nothing"], found["secure aggregation"]
    assert nothing["counts"] == pytest.approx(0, abs=1e-12)
    assert nothing["message"] < 0.6 * nothing["beforehand"]  # noise on counts alone hides little
    assert found["counts noised (epsilon 0.5)"]["message"] == pytest.approx(nothing["message"], abs=1e-6)
    assert secure["message"] is None
    assert secure["model"] > nothing["message"]
    assert found["noise at each client (epsilon 8)"]["message"] > nothing["message"]
    assert all(row["epsilon"] is None or row["epsilon"] <= 8 for row in rows)
    (table,) = leakage_study_tables(rows)
    assert table.row_count == len(rows)
    assert leakage_chart(rows).to_dict()["title"]
