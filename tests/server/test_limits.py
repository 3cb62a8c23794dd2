"""How much may be sent, asked of the real server, and how much the log holds."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.serving import Server, serving

ENDLESS = 64 << 20  # bytes that an endless upload stops at, if nobody stops it
TAKEN = 8 << 20  # what may be on its way until the client hears that it is refused: buffers of the system


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("limits")
    with serving(folder, TMPDIR=str(folder)) as made:
        endless(made, PATHS[0], MULTIPART + CHUNKED)  # what a first request loads is not what it leaves
        yield made


def connected(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def endless(server: Server, path: str, head: str) -> bytes:
    """What is answered to an upload without an end."""
    client = connected(server)
    begun = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n".encode()
    part = b'--b\r\nContent-Disposition: form-data; name="name"; filename="x"\r\n\r\n' + b"x" * 65_000
    chunked = b"%x\r\n%s\r\n" % (len(part), part)
    count, said = 0, b""
    client.sendall(begun)
    with suppress(OSError):
        while count < ENDLESS:
            client.sendall(chunked if "chunked" in head else part)
            count += len(part)
    client.settimeout(1)
    with suppress(OSError):
        said = client.recv(4000)
    client.close()
    return said


MULTIPART = "Content-Type: multipart/form-data; boundary=b\r\n"
PATHS = ["/v1/chat/completions", "/gradio_api/upload", "/gradio_api/queue/join", "/", "/nothing", "/export/x.md"]


CHUNKED, LONG = "Transfer-Encoding: chunked\r\n", f"Content-Length: {ENDLESS * 100}\r\n"


@pytest.mark.parametrize(("path", "how"), [*((path, CHUNKED) for path in PATHS), *((path, LONG) for path in PATHS[:2])])
def test_nobody_uploads_without_end(server, path, how):
    before = psutil.Process(server.process.pid).memory_info().rss
    began = time.monotonic()
    said = endless(server, path, MULTIPART + how)
    kept = [file for file in Path(server.environment["TMPDIR"]).iterdir() if file.name.startswith("tmp")]
    grown = psutil.Process(server.process.pid).memory_info().rss - before
    print(f"{path}: {said.split(b' ')[1:2]}, {time.monotonic() - began:.1f} s, {grown / 1e6:.1f} MB more")
    assert said.split(b" ")[1] in (b"404", b"405", b"413")
    assert kept == []
    assert grown < TAKEN


def test_garbage_is_counted_in_the_log_not_written(server):
    log = len(server.log)
    for _ in range(500):
        with suppress(OSError), connected(server) as client:
            client.sendall(b"\x16\x03\x01 what is this\r\n\r\n")
            client.recv(1000)
    written = server.log[log:]
    assert 1 <= written.count("Invalid HTTP request") <= 14
    assert "(100 times within a minute)" in written
    assert (server.data / "home/omnidraft.log").read_text().count("Invalid HTTP request") <= 14


def test_the_log_rotates(tmp_path):
    script = (
        "import logging, pathlib, sys\nfrom omnidraft.storage import log\n"
        "log.BYTES = 5_000\nlog.begin_log()\nlog.keep_log(pathlib.Path(sys.argv[1]))\n"
        + "".join(f"logging.warning('line {n} %s', 'x' * 100)\n" for n in range(500))
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "a.log")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("line") == 500
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.log", "a.log.1", "a.log.2", "a.log.3"]
    assert all(file.stat().st_size <= 5_000 for file in tmp_path.iterdir())
