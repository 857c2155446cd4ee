"""What theory says about a run."""

from entrofed.report.blocks import Section
from entrofed.report.collect import Run


def diagnostics_section(run: Run) -> Section | None:
    """The diagnostics of a run; there are none yet."""
    return None
