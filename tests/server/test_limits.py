"""What strangers may send: how much, how slowly and over how many connections, asked of the real server."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from omnidraft.profiles.accounts import add_account
from tests.serving import SETTINGS, Server, write_settings

ENDLESS = 64 << 20  # bytes that an endless upload stops at, if nobody stops it
TAKEN = 8 << 20  # what may be on its way until the client hears that it is refused: buffers of the system
HALF = 320
OPEN_FILES = 256  # as some systems have it by themselves


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app with accounts, and few open files."""
    folder = tmp_path_factory.mktemp("limits")
    add_account(folder / "accounts", "ada", "correct horse battery")
    made = Server(folder / "app", ["--auth-file", str(folder / "accounts")], {"TMPDIR": str(folder)})
    write_settings(made, SETTINGS)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, hard))
    try:
        made.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield made
    made.kill()


def connected(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def endless(server: Server, path: str, head: str) -> tuple[int, bytes]:
    """Bytes that an upload without an end could send, and what was answered."""
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
    return count, said


MULTIPART = "Content-Type: multipart/form-data; boundary=b\r\n"
PATHS = ["/login", "/favicon.ico", "/logout", "/", "/nothing", "/gradio_api/upload", "/gradio_api/queue/join",
         "/v1/chat/completions", "/v1/embeddings", "/export/x.md"]  # fmt: skip


CHUNKED, LONG = "Transfer-Encoding: chunked\r\n", f"Content-Length: {ENDLESS * 100}\r\n"


@pytest.mark.parametrize(("path", "how"), [*((path, CHUNKED) for path in PATHS), *((path, LONG) for path in PATHS[:2])])
def test_nobody_uploads_without_end_before_signing_in(closed, path, how):
    before = psutil.Process(closed.process.pid).memory_info().rss
    began = time.monotonic()
    _, said = endless(closed, path, MULTIPART + how)
    kept = [file for file in Path(closed.environment["TMPDIR"]).iterdir() if file.name.startswith("tmp")]
    grown = psutil.Process(closed.process.pid).memory_info().rss - before
    print(f"{path}: {said.split(b' ')[1:2]}, {time.monotonic() - began:.1f} s, {grown / 1e6:.1f} MB more")
    assert said.split(b" ")[1] in (b"401", b"404", b"405", b"413")
    assert kept == []
    assert grown < TAKEN


def answers(server: Server) -> float:
    """Seconds until the sign-in page is there."""
    began = time.monotonic()
    assert server.ask("GET", "/login", timeout=30)[0] == 200
    return time.monotonic() - began


HALVES = (
    b"",
    b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\nX-",
    b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 100\r\n\r\nname=a",
)


@pytest.mark.slow
def test_half_sent_requests_stop_nobody(closed):
    """Nothing of them, a part of the head, a part of the body."""
    process, log = psutil.Process(closed.process.pid), len(closed.log)
    usual, clients = answers(closed), []
    for number in range(HALF):
        with suppress(OSError):
            clients.append(connected(closed))
            clients[-1].sendall(HALVES[number % len(HALVES)])
    used, began = sum(process.cpu_times()[:2]), time.monotonic()
    waits = [answers(closed) for _ in range(5)]
    time.sleep(3)
    share = (sum(process.cpu_times()[:2]) - used) / (time.monotonic() - began)
    print(f"usually {usual:.3f} s, now {sorted(waits)[2]:.3f} s; {share:.0%} of a core")
    assert sorted(waits)[2] < 1 + usual
    assert share < 0.5
    until = time.monotonic() + 30
    while len(process.net_connections()) > 5 and time.monotonic() < until:
        time.sleep(0.5)
    assert len(process.net_connections()) <= 5, "all are closed after their time"
    for client in clients:
        client.close()
    assert len(closed.log) - log < 10_000


@pytest.mark.slow
def test_a_request_that_comes_by_drops_ends_in_time(closed):
    client, began = connected(closed), time.monotonic()
    client.sendall(b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    with suppress(OSError):
        while time.monotonic() - began < 60:
            client.sendall(b"X-Slow: a\r\n")
            time.sleep(0.5)
    assert 5 < time.monotonic() - began < 20


def test_a_slow_line_is_heard_out(closed):
    """A form of a few hundred bytes in pieces, over several seconds."""
    body = b"name=ada&password=correct+horse+battery"
    client = connected(closed)
    client.sendall(b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n")
    client.sendall(b"Content-Length: %d\r\n\r\n" % len(body))
    for at in range(0, len(body), 10):
        time.sleep(1)
        client.sendall(body[at : at + 10])
    assert client.recv(4000).startswith(b"HTTP/1.1 303")


def test_garbage_is_counted_in_the_log_not_written(closed):
    log = len(closed.log)
    for _ in range(500):
        with suppress(OSError), connected(closed) as client:
            client.sendall(b"\x16\x03\x01 what is this\r\n\r\n")
            client.recv(1000)
    written = closed.log[log:]
    assert 1 <= written.count("Invalid HTTP request") <= 14
    assert "(100 times within a minute)" in written
    assert (closed.data / "home/omnidraft.log").read_text().count("Invalid HTTP request") <= 14


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
