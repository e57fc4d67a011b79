"""The limit on bodies, and the headers of every response."""

import asyncio
import socket

import httpx
import pytest

from dqam.errors import InputError
from dqam.explorer import make_app
from dqam.explorer.middleware import MOST_BYTES
from dqam.release.release import Release
from tests.explorer.conftest import Served


def test_a_body_without_a_length_is_not_read_to_its_end(first: Release) -> None:
    app, sent, read = make_app([("one", first)]), [], 0

    async def receive() -> dict[str, object]:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b"x" * 65_536, "more_body": True}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async def run() -> None:
        scope = {"type": "http", "method": "POST", "path": "/api/releases/0/counts", "headers": [], "query_string": b""}
        await app(scope, receive, send)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(run())
    loop.close()
    assert sent[0]["status"] == 413
    assert read == MOST_BYTES // 65_536 + 1


def test_headers(pair: Served, first: Release) -> None:
    for path in ("/", "/api", "/static/explorer.js", "/api/releases", "/api/releases/0/layer", "/edr", "/nothing"):
        told = httpx.get(pair.address + path).headers
        policy = told["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert told["X-Content-Type-Options"] == "nosniff"
        assert told["Referrer-Policy"] == "same-origin"
        assert ("Access-Control-Allow-Origin" in told) == path.startswith(("/api/", "/edr"))
    body = {"rectangles": [[-30.01, 44.99, -29.99, 45.01]]}
    told = httpx.post(f"{pair.address}/api/releases/0/counts", json=body, headers={"Origin": "https://x.org"}).headers
    assert "Access-Control-Allow-Origin" not in told


def test_tiles_are_allowed_where_they_are_given_and_nowhere_else(first: Release) -> None:
    tiles = "https://{s}.tiles.example.org/{z}/{x}/{y}.png"
    transport = httpx.ASGITransport(make_app([("one", first)], tiles, "© somebody"))

    async def get() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return [await client.get("/"), await client.get("/api/background")]

    loop = asyncio.new_event_loop()
    page, background = loop.run_until_complete(get())
    loop.close()
    assert "img-src 'self' data: https://*.tiles.example.org;" in page.headers["Content-Security-Policy"]
    assert background.json() == {"tiles": tiles, "attribution": "© somebody"}
    for bad in ("tiles.png", "file:///{z}/{x}/{y}", "https://x.org/{z}/{x}.png", "https://x; script-src */{z}{x}{y}"):
        with pytest.raises(InputError, match="such as"):
            make_app([("one", first)], bad)


def test_what_is_large_is_compressed_for_those_who_can_read_it(pair: Served) -> None:
    for path in ("/static/leaflet/leaflet.js", "/api/releases/0/layer"):
        plain = httpx.get(pair.address + path, headers={"Accept-Encoding": "identity"})
        small = httpx.get(pair.address + path, headers={"Accept-Encoding": "gzip"})
        assert "Content-Encoding" not in plain.headers
        assert small.headers["Content-Encoding"] == "gzip"
        assert "Accept-Encoding" in small.headers["Vary"]
        assert small.content == plain.content
        assert small.num_bytes_downloaded < len(plain.content) / 2


def test_a_body_that_announces_too_much_is_not_read_at_all(pair: Served) -> None:
    headers = {"Content-Length": str(MOST_BYTES + 1), "Content-Type": "application/json"}
    request = httpx.Request("POST", f"{pair.address}/api/releases/0/counts", headers=headers)
    with socket.create_connection((request.url.host, request.url.port)) as connection:
        head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        connection.sendall(f"POST {request.url.path} HTTP/1.1\r\n{head}\r\n".encode())
        assert connection.recv(12) == b"HTTP/1.1 413"
