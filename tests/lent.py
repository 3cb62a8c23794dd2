"""Workers on this machine's loopback for tests, started as `python -m omnidraft worker` starts them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import llama_cpp
import psutil
import pytest

from omnidraft.backends.remote.worker_process import Lending, WorkerProcess
from omnidraft.errors import ModelError
from omnidraft.settings.fields import Address
from tests.serving import free_port

needs_rpc = pytest.mark.skipif(
    not llama_cpp.llama_supports_rpc(), reason="this build of llama-cpp-python has no RPC backend (-DGGML_RPC=ON)"
)


class Worker:
    """A running worker; `said` are the sentences it would print."""

    def __init__(self, port: int | None = None, memory: int | None = None) -> None:
        self.address = Address("127.0.0.1", port or free_port())
        self.said: list[str] = []
        self._process = WorkerProcess(Lending(self.address, threads=1, memory=memory))
        self.lends = self._process.start()
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    @property
    def inner(self) -> psutil.Process:
        """The process that serves."""
        return psutil.Process(self._process.pid)

    def stop(self) -> None:
        self._process.stop()
        self._reader.join(20)

    def _follow(self) -> None:
        with suppress(ModelError, ValueError):  # pipes closed by `stop`
            for sentence in self._process.events():
                self.said.append(sentence)


@contextmanager
def workers(count: int = 2) -> Iterator[list[Worker]]:
    running: list[Worker] = []
    try:
        for _ in range(count):
            running.append(Worker())
        yield running
    finally:
        for worker in running:
            with suppress(psutil.Error):
                worker.inner.resume()  # one that a test has stopped
            worker.stop()


def named(running: list[Worker]) -> str:
    """As the setting has them."""
    return ", ".join(str(worker.address) for worker in running)
