"""Hosts, origins and headers: what the guard lets through and what every response carries."""

from __future__ import annotations

from omnidraft.server.guard.security import HEADERS, allowed_hosts


def request(server, method: str = "GET", path: str = "/", **headers: str) -> tuple[int, dict, bytes]:
    return server.ask(method, path, headers={"Host": f"127.0.0.1:{server.port}", **headers})


def test_local_names_are_served(server):
    for host in (f"127.0.0.1:{server.port}", f"localhost:{server.port}", "localhost", f"[::1]:{server.port}"):
        assert request(server, Host=host)[0] == 200


def test_other_names_are_refused(server):
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "localhost.", ""):
        assert request(server, Host=host)[0] == 400


def test_every_response_carries_the_policy(server):
    for path in ("/", "/theme.css", "/gradio_api/info", "/nothing-here"):
        assert HEADERS.items() <= request(server, path=path)[1].items()
    assert "img-src 'self' data: blob:" in HEADERS["content-security-policy"]
    assert "http" not in HEADERS["content-security-policy"]


def test_no_event_is_a_public_endpoint_and_nothing_is_recorded(server):
    body = request(server, path="/gradio_api/info")[2].decode()
    assert '"named_endpoints":{}' in body.replace(" ", "")
    assert '"unnamed_endpoints":{}' in body.replace(" ", "")
    for path in ("/monitoring", "/gradio_api/runs", "/docs", "/openapi.json", "/redoc"):
        assert request(server, path=path)[0] in (403, 404), path


def test_a_wildcard_address_admits_only_names_that_were_given():
    assert allowed_hosts("0.0.0.0") == ["127.0.0.1", "localhost", "[::1]"]
    assert "nas.lan" in allowed_hosts("0.0.0.0", ["nas.lan"])
    assert "192.168.1.5" in allowed_hosts("192.168.1.5")
    assert "[fe80::1]" in allowed_hosts("fe80::1")
