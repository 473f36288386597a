"""A test that hangs fails after HR_TEST_SECONDS (300), where it stood; the others go on. Ctrl-C is heard, also where
the tests run in the background of a shell that has it ignored."""
import os
import signal

import pytest

SECONDS = int(os.environ.get("HR_TEST_SECONDS", "300"))

# An ignored signal stays ignored in everything that is started.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def limited_in_time():
    def stop(*_):
        raise TimeoutError(f"this test took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
