"""Work that is done beside a run, one piece at a time."""

from collections.abc import Callable
from threading import Thread


class Beside:
    """A thread for the writing of files: the run goes on meanwhile, and hears of what went wrong when it looks next."""

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    @property
    def busy(self) -> bool:
        """Whether something is being done."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], None]) -> None:
        """Do something, once what was begun before is done."""
        self.wait()
        self._thread = Thread(target=self._do, args=(work,), name="entrofed checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Until nothing is being done; raises what went wrong."""
        if self._thread is not None:
            self._thread.join()
        self._thread, error, self._error = None, self._error, None
        if error is not None:
            raise error

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._error = error
