"""Ends that come at a bad moment, and requests that nobody sends by accident: no waiting, no traceback."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from tests.real import QWEN, SMOL, real_model
from tests.serving import SETTINGS, Server

UNKNOWN = [
    ("GET", "/gradio_api/queue/data?session_hash=unknown", None),
    ("POST", "/gradio_api/queue/join", {"session_hash": "x", "fn_index": 99999, "data": []}),
    ("POST", "/gradio_api/component_server", {"data": [], "component_id": 99999, "fn_name": "x", "session_hash": "q"}),
    ("POST", "/gradio_api/run/predict", {"data": []}),
    ("POST", "/gradio_api/call/unknown", {"data": []}),
]


@pytest.mark.parametrize(("method", "path", "body"), UNKNOWN)
def test_what_gradio_does_not_know_is_a_line_in_the_log(server, method, path, body):
    before = len(server.log)
    try:
        status = server.ask(method, path, body, timeout=10)[0]
    except OSError as error:
        pytest.fail(f"no whole answer: {error}")
    time.sleep(0.2)
    written = server.log[before:]
    assert status < 500
    assert "Traceback" not in written
    assert written.count("\n") <= 1


@pytest.mark.parametrize(("name", "after"), [
    (SMOL, 0.5), *(pytest.param(QWEN, after, marks=pytest.mark.slow) for after in (0.1, 0.5, 1.0)),
])  # fmt: skip
def test_an_end_while_a_model_is_loaded_is_no_wait(tmp_path, name, after):
    """The next start finds the data free."""
    (tmp_path / "app/home/profiles/default").mkdir(parents=True)
    (tmp_path / "app/home/profiles/default/settings.toml").write_text(SETTINGS)
    running = Server(tmp_path / "app", ["--target", str(real_model(name))]).start()
    body = {"max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}
    told: list[int] = []
    asking = threading.Thread(target=lambda: told.append(running.ask("POST", "/v1/chat/completions", body)[0]))
    asking.start()
    time.sleep(after)
    running.process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    running.process.wait(60)
    took = time.monotonic() - began
    asking.join()
    assert "Traceback" not in running.log
    assert told[0] in (200, 499, 503)
    assert took < 8
    again = Server(tmp_path / "app", ["--target", str(real_model(name))], port=0).start()
    again.process.send_signal(signal.SIGTERM)
    again.process.wait(60)
