"""Who took part in stored runs, how much they counted, and what it cost."""

from collections.abc import Iterable, Sequence
from statistics import mean

from entrofed.papers.results import Result

COURSE_HEAD = (
    *("column", "distinct clients", "cohort entropy, bits", "largest weight, x equal", "MB sent and received"),
    "cosine with the gradient",
)


def course_rows(results: Iterable[Result], columns: Sequence[str]) -> list[list[str]]:
    """A row for each column of a cell whose runs kept their course; means over rounds and seeds.

    *Largest weight, x equal* is the largest weight of a round times the number of weights: 1 where all count alike. Of
    peers it is that of a node's own model. The cosine is of a round's step and the negative gradient over all data,
    where it was measured.

    >>> course = {"cohort": [[3, 1], [3, 2]], "weights": [[0.5, 0.5], [0.75, 0.25]], "cohort_entropy": [1.0, 2.0]}
    >>> course |= {"bytes_up": [10**6] * 2, "bytes_down": [0, 0]}
    >>> run = Result("t", "c", "FedAvg", 0, "1", "", {"accuracy": [0.5, 0.7]}, course=course)
    >>> course_rows([run], ["FedAvg"])
    [['FedAvg', '3', '1.500', '1.250', '2.0', '']]
    """
    rows = []
    for column in columns:
        courses = [found.course for found in results if found.column == column and found.course]
        if not courses:
            continue
        distinct = [len({client for cohort in course["cohort"] for client in cohort}) for course in courses]
        entropies = [bits for course in courses for bits in course["cohort_entropy"] if bits is not None]
        weights = [max(row) * len(row) for course in courses for row in course["weights"] if row]
        traffic = [(sum(course["bytes_up"]) + sum(course["bytes_down"])) / 1e6 for course in courses]
        cosines = [cosine for course in courses for cosine in course.get("alignment_cosine", ()) if cosine is not None]
        rows.append(
            [
                column,
                f"{mean(distinct):.1f}".removesuffix(".0"),
                f"{mean(entropies):.3f}" if entropies else "",
                f"{mean(weights):.3f}" if weights else "",
                f"{mean(traffic):.1f}",
                f"{mean(cosines):.3f}" if cosines else "",
            ]
        )
    return rows
