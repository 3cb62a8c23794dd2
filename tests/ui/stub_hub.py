"""A small stand-in for the Hub: one repository with GGUF files, ranges honoured, as slow as a test wants it."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

REPO = "tester/tiny-gguf"


class StubHub:
    """`files` by name; `delay` seconds per `chunk` bytes; `ranges` are the starts that were asked for."""

    def __init__(self, files: dict[str, bytes], repo: str = REPO) -> None:
        self.files, self.repo = files, repo
        self.delay, self.chunk = 0.0, 1 << 16
        self.damaged: set[str] = set()
        self.ranges: list[int] = []
        self.listed: list[dict] = []  # what a search finds
        self.queries: list[dict[str, list[str]]] = []
        self.headers: list[dict[str, str]] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub.headers.append(dict(self.headers))
                path = self.path.partition("?")[0]
                if path == "/api/models":
                    hub.queries.append(parse_qs(urlsplit(self.path).query))
                    hub._reply(self, 200, json.dumps(hub.listed).encode(), {"Content-Type": "application/json"})
                elif path == f"/api/models/{repo}" or path.startswith(f"/api/models/{repo}/revision/"):
                    hub._describe(self)
                elif path.startswith(f"/{repo}/resolve/main/"):
                    hub._send(self, path.partition("/resolve/main/")[2])
                else:
                    hub._reply(self, 404, b'{"error":"Repository not found"}', {"X-Error-Code": "RepoNotFound"})

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def _describe(self, handler: BaseHTTPRequestHandler) -> None:
        siblings = [
            {"rfilename": name, "size": len(data),
             "lfs": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 100}}
            for name, data in self.files.items()
        ]  # fmt: skip
        siblings.append({"rfilename": "README.md", "size": 5})
        body = {"id": self.repo, "siblings": siblings, "tags": [], "private": False, "downloads": 0}
        self._reply(handler, 200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _send(self, handler: BaseHTTPRequestHandler, name: str) -> None:
        data = self.files[name]
        if name in self.damaged:
            data = data[:-1] + bytes([data[-1] ^ 1])
        wanted = handler.headers.get("Range", "bytes=0-")
        start = int(wanted.removeprefix("bytes=").partition("-")[0])
        self.ranges.append(start)
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(data) - start))
        handler.end_headers()
        for at in range(start, len(data), self.chunk):
            try:
                handler.wfile.write(data[at : at + self.chunk])
            except OSError:
                return
            time.sleep(self.delay)

    def _reply(self, handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]) -> None:
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)
