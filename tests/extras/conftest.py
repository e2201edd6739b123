"""No test here can hang: each starts a server, a cluster or a browser that might not answer."""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

import pytest

SECONDS = 240  # for each of set-up, test and clean-up; the slowest needs 60 on a busy machine
GRACE_SECONDS = 60  # a library that does not return to Python ends the whole run after this


@contextmanager
def _limited(item: pytest.Item) -> Generator[None, None, None]:
    def give_up(*_: object) -> NoReturn:
        raise TimeoutError(f"{item.nodeid} took more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(SECONDS)
    faulthandler.dump_traceback_later(SECONDS + GRACE_SECONDS, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    with _limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    with _limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    with _limited(item):
        return (yield)
