"""The command ``entrofed``."""

from entrofed.cli.main import main

__all__ = ["main"]
