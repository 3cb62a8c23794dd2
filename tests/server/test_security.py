"""Hosts, origins and headers: what the guard lets through and what every response carries."""

from __future__ import annotations

import http.client

import pytest

from omnidraft.server.guard.security import HEADERS, allowed_hosts


def request(server, method: str = "GET", path: str = "/", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(method, path, headers={"Host": f"127.0.0.1:{server.port}", **headers})
    response = connection.getresponse()
    response.read()
    connection.close()
    return response


def test_local_names_are_served(server):
    for host in (f"127.0.0.1:{server.port}", f"localhost:{server.port}", "localhost", f"[::1]:{server.port}"):
        assert request(server, Host=host).status == 200


def test_other_names_are_refused(server):
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "localhost.", ""):
        assert request(server, Host=host).status == 400


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_posts_from_other_origins_are_refused(server, origin):
    response = request(server, "POST", "/gradio_api/queue/join", Origin=origin)
    assert response.status == 403


def test_every_response_carries_the_policy(server):
    for path in ("/", "/theme.css", "/gradio_api/info", "/nothing-here"):
        response = request(server, path=path)
        for name, value in HEADERS.items():
            assert response.getheader(name) == value
    assert "img-src 'self' data: blob:" in HEADERS["content-security-policy"]
    assert "http" not in HEADERS["content-security-policy"]


def test_no_event_is_a_public_endpoint_and_nothing_is_recorded(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", "/gradio_api/info")
    body = connection.getresponse().read().decode()
    assert '"named_endpoints":{}' in body.replace(" ", "")
    assert '"unnamed_endpoints":{}' in body.replace(" ", "")
    for path in ("/monitoring", "/gradio_api/runs", "/docs", "/openapi.json", "/redoc"):
        assert request(server, path=path).status in (403, 404), path


def test_a_wildcard_address_admits_only_names_that_were_given():
    assert allowed_hosts("0.0.0.0") == ["127.0.0.1", "localhost", "[::1]"]
    assert "nas.lan" in allowed_hosts("0.0.0.0", ["nas.lan"])
    assert "192.168.1.5" in allowed_hosts("192.168.1.5")
    assert "[fe80::1]" in allowed_hosts("fe80::1")
