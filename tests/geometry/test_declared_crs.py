"""CRSs as files declare them, in any of the ways to write one."""

import json

import pyarrow as pa
import pyproj
import pytest

from dqam.errors import InputError
from dqam.geometry.declared_crs import crs_name, declared_crs, geoparquet, primary_column
from dqam.geometry.grid import DEGREES


def schema(geo: bytes) -> pa.Schema:
    return pa.schema({"shape": pa.binary(), "n": pa.int64()}).with_metadata({"geo": geo})


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        ("OGC:CRS84", DEGREES),
        ("urn:ogc:def:crs:OGC:1.3:CRS84", DEGREES),
        ("urn:ogc:def:crs:EPSG::28355", "EPSG:28355"),
        (pyproj.CRS("EPSG:32629").to_json_dict(), "EPSG:32629"),
        (pyproj.CRS("EPSG:32629").to_wkt(), "EPSG:32629"),
        (pyproj.CRS("EPSG:4326"), DEGREES),
    ],
)
def test_short_names(declared: object, name: str) -> None:
    assert crs_name(declared) == name


def test_an_unknown_crs_is_refused() -> None:
    with pytest.raises(InputError, match=r"reference system 'x' is not known|system x is not known.*crs='EPSG:"):
        crs_name("x")


def test_geoparquet_metadata() -> None:
    crs = pyproj.CRS("EPSG:28355").to_json_dict()
    good = schema(json.dumps({"primary_column": "shape", "columns": {"shape": {"crs": crs}}}).encode())
    assert (primary_column(good), declared_crs(good, "shape")) == ("shape", "EPSG:28355")
    plain = schema(b'{"primary_column": "shape", "columns": {"shape": {}}}')
    assert declared_crs(plain, "shape") == DEGREES
    for bad in (b"not json", b"[]", b'{"columns": 5}'):
        assert geoparquet(schema(bad)) == {}
        assert primary_column(schema(bad)) is None
        assert declared_crs(schema(bad), "shape") is None
