"""The API: what the library says, and clear sentences for the rest."""

import ast
import gzip
from pathlib import Path

import httpx
import numpy as np
import pytest

import dqam.explorer
from dqam.errors import InputError
from dqam.explorer import make_app
from dqam.explorer.layer import Layer
from dqam.geometry.grid import Grid
from dqam.release.release import Release
from tests.explorer.conftest import Served, numbered

PACKAGES = {"dqam.errors", "dqam.runtime", "dqam.geometry", "dqam.release", "dqam.explorer"}
FORBIDDEN = ("dqam.geometry.trips", "dqam.geometry.walks", "sqlalchemy", "importlib")


def test_pages_and_their_files(pair: Served) -> None:
    for path, kind in (
        ("/", "text/html"),
        ("/api", "text/html"),
        ("/static/explorer.js", "text/javascript"),
        ("/static/explorer.css", "text/css"),
        ("/static/leaflet/leaflet.js", "text/javascript"),
        ("/static/leaflet/images/layers.png", "image/png"),
    ):
        answer = httpx.get(pair.address + path)
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith(kind)
        again = httpx.get(pair.address + path, headers={"If-None-Match": answer.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert httpx.head(pair.address + path).status_code == 200
        assert answer.headers["Cache-Control"] == "no-cache"
        assert httpx.post(pair.address + path).status_code == 405


def test_a_layer_comes_as_bytes_with_facts_and_a_tag(mixed: Served) -> None:
    for n, (_, release) in enumerate(mixed.releases):
        layer = Layer.of(release)
        answer = httpx.get(f"{mixed.address}/api/releases/{n}/layer", headers={"Accept-Encoding": "identity"})
        facts = httpx.get(f"{mixed.address}/api/releases/{n}/layer/facts").json()
        height, width = facts["height"], facts["width"]
        assert (answer.headers["X-Width"], answer.headers["X-Height"]) == (str(width), str(height))
        assert [float(side) for side in answer.headers["X-Bounds"].split(",")] == facts["bounds"] == list(layer.bounds)
        values = np.frombuffer(answer.content, "<f4").reshape(height, width)
        np.testing.assert_array_equal(values, layer.values)
        assert facts["largest"] == np.nanmax(values)
        with httpx.stream(
            "GET", f"{mixed.address}/api/releases/{n}/layer", headers={"Accept-Encoding": "gzip"}
        ) as small:
            assert gzip.decompress(b"".join(small.iter_raw())) == answer.content
        again = httpx.get(f"{mixed.address}/api/releases/{n}/layer", headers={"If-None-Match": answer.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_it_knows_releases_and_nothing_behind_them() -> None:
    folder = Path(dqam.explorer.__file__).parent
    found = set()
    for path in folder.glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0
                found |= {str(node.module), *(f"{node.module}.{name.name}" for name in node.names)}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("__import__", "exec", "eval", "open")
    assert "dqam" not in found
    assert not {name for name in found if name.startswith(FORBIDDEN)}
    assert {".".join(name.split(".")[:2]) for name in found if name.startswith("dqam.")} == PACKAGES


def test_nothing_to_show_and_nowhere_to_show_it(first: Release) -> None:
    with pytest.raises(InputError, match="at least one release"):
        make_app([])
    polar = numbered(Grid((0, 86, 1, 87), 4, 4), first)
    with pytest.raises(InputError, match="far north has a grid over"):
        make_app([("far north", polar)])
