"""Runs as one page that needs no server and no network."""

from entrofed.report.live import live
from entrofed.report.page import write_report

__all__ = ["live", "write_report"]
