"""Mistakes in requests: the right status, and one sentence."""

import json

import httpx
import pytest

from dqam.explorer.middleware import MOST_BYTES
from tests.explorer.conftest import Served


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/api/releases/2/count?west=0&south=0&east=1&north=1", 404, "There is no release 2; the last one here is 1."),
        ("/api/releases/-1/layer", 422, "greater than or equal to 0"),
        ("/api/releases/x/layer", 422, "n: "),
        ("/api/releases/0/count?west=0&south=0&east=1", 422, "north: Field required"),
        ("/api/releases/0/count?west=0&south=0&east=1&north=up", 422, "north: "),
        ("/api/releases/0/count?west=0&south=0&east=1&north=1&confidence=1", 422, "confidence: "),
        ("/api/releases/0/count?west=0&south=0&east=1&north=1&confidence=nan", 422, "confidence: "),
        ("/nothing", 404, "There is nothing at /nothing"),
        ("/static/", 404, "nothing"),
        ("/static/leaflet", 404, "nothing"),
        ("/static/leaflet/LICENSE", 404, "nothing"),
        ("/static/..%2fapp.py", 404, "nothing"),
        ("/static/../leaflet/LICENSE", 404, "nothing"),
        ("/static/%00", 404, "nothing"),
        ("/static/" + "x" * 5_000, 404, "nothing"),
        ("/static/%2e%2e/%2e%2e/pyproject.toml", 404, "nothing"),
        ("/static//etc/passwd", 404, "nothing"),
        ("/docs", 404, "nothing"),
        ("/redoc", 404, "nothing"),
    ],
)
def test_other_mistakes_get_sentences_too(pair: Served, path: str, status: int, words: str) -> None:
    answer = httpx.get(pair.address + path)
    assert answer.status_code == status
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"[" * 100_000, 400),
        (b'{"rectangles": []}', 422),
        (b'{"rectangles": [[1, 2, 3]]}', 422),
        (b'{"rectangles": [["1", 2, 3, 4]]}', 422),
        (b'{"rectangles": [[1, 2, 3, true]]}', 422),
        (b'{"rectangles": [[1, 2, 3, 4]], "other": 1}', 422),
        (b'{"rectangles": [[1, 2, 3, 4]], "\\ud800": 1}', 422),
        (b'{"rectangles": [[1, 2, 3, 4]], "crs": "\\ud800"}', 400),
        (b'{"rectangles": [[1, 2, 3, 4]], "crs": "+proj=utm"}', 400),
        (b'{"rectangles": [[NaN, 2, 3, Infinity]]}', 400),
        (b'{"rectangles": [[1' + b"0" * 400 + b", 2, 3, 4]]}", 422),
        (b'{"rectangles": [[1' + b"0" * 5_000 + b", 2, 3, 4]]}", 400),
        (b'{"rectangles": [[1, 2, 3, 4]]}', 400),
        (json.dumps({"rectangles": [[0, 0, 1, 1]] * 10_001}).encode(), 422),
        (b"x" * (MOST_BYTES + 1), 413),
    ],
    ids=range(17),
)
def test_bad_bodies(pair: Served, body: bytes, status: int) -> None:
    kind = {"Content-Type": "application/json"}
    answer = httpx.post(f"{pair.address}/api/releases/0/counts", content=body, headers=kind)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"].endswith(".")
