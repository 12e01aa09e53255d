"""A watchdog: code of somebody else that does not come back is interrupted, where the system can do that."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class DoesNotReturn(BaseException):
    """Raised inside the code that took too long; no `Exception`, so that ``except Exception`` does not swallow it."""


@contextmanager
def watchdog(seconds: float) -> Iterator[None]:
    """Raise `DoesNotReturn` inside the block after so many seconds.

    It needs POSIX timers and the main thread; elsewhere the block just runs. A timer that somebody else has set goes
    on afterwards, with what was left of it.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def bark(number: int, frame: FrameType | None) -> None:
        raise DoesNotReturn(f"no answer within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, bark)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, interval)
        signal.signal(signal.SIGALRM, before)
