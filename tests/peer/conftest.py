"""Peers in threads of one process share torch's generator: only one at a time may draw from it."""

import threading
from contextlib import contextmanager

import pytest

from entrofed.core import seeds

LOCK = threading.RLock()


@pytest.fixture(autouse=True, scope="session")
def one_at_a_time():
    before = seeds.no_trace

    @contextmanager
    def locked(*args):
        with LOCK, before(*args):
            yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seeds, "no_trace", locked)
        yield
