"""What OGC API - Environmental Data Retrieval (EDR) 1.1 says about releases: a landing page, the parts of the standard
that are supported, and a collection for each release.

A collection is called after the file of its release. It has no temporal extent, because a release does not tell when
its trips took place. Slices such as hours of the day recur, so they are no instants; they are a custom dimension.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from edr_pydantic.capabilities import ConformanceModel, LandingPageModel
from edr_pydantic.collections import Collection
from edr_pydantic.data_queries import DataQueries, EDRQuery
from edr_pydantic.extent import Custom, Extent, Spatial
from edr_pydantic.link import EDRQueryLink, Link
from edr_pydantic.observed_property import ObservedProperty
from edr_pydantic.parameter import Parameter, Parameters
from edr_pydantic.unit import Symbol, Unit
from edr_pydantic.variables import CubeVariables, Variables
from pydantic import BaseModel, Field

from dqam.explorer.layer import in_degrees
from dqam.explorer.schema import UnitInfo
from dqam.geometry.grid import DEGREES, Grid, parse_crs
from dqam.release.published_map import CONFIDENCE
from dqam.release.release import Release

CRS84 = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
COVERAGE, GEOJSON = FORMATS = ("CoverageJSON", "GeoJSON")
COVERAGE_TYPE, GEOJSON_TYPE = "application/prs.coverage+json", "application/geo+json"
AS_CRS = {CRS84: "OGC:CRS84"}
EDR = "http://www.opengis.net/spec/ogcapi-edr-1/1.1/conf/"
CONFORMANCE = (
    "http://www.opengis.net/spec/ogcapi-common-1/1.0/conf/core",
    "http://www.opengis.net/spec/ogcapi-common-2/1.0/conf/collections",
    *(EDR + name for name in ("core", "collections", "json", "geojson", "covjson", "queries")),
)
UCUM = Symbol(value="1", type="http://www.opengis.net/def/uom/UCUM/")
NOT_ADDED_UP = (
    "Distinct trips must not be added up across cells or areas: a trip through two of them counts in both. To count "
    "the trips in several places together, ask for all of them as one area."
)
SLICES_ADD_UP = "Every trip is in exactly one slice, so the trips of slices do add up."
QUERIES = {
    "position": "Distinct trips through the grid cell that contains a point.",
    "area": "Distinct trips through a polygon or multipolygon, as one number.",
    "cube": "Distinct trips through each cell, or block of cells, that meets a rectangle.",
}


class Privacy(BaseModel):
    """What a release guarantees."""

    promise: str = Field(description="Privacy guarantee, in words.")
    private: bool = Field(description="Whether the release is private; if not, it is for tests and experiments only.")
    epsilon: float = Field(description="Privacy budget epsilon that was spent; smaller is more private.")
    delta: float = Field(description="Probability by which the guarantee is weakened; 0 for pure differential privacy.")
    unit: UnitInfo
    counted: str = Field(description="Which trips the numbers count.")
    mechanism: str = Field(description="Name of the mechanism that made it.")
    release: str = Field(description="Id of the publication.")


class MapCollection(Collection):
    """A release as a collection, with its privacy guarantee."""

    privacy: Privacy


class MapCollections(BaseModel):
    """All releases as collections."""

    links: list[Link]
    collections: list[MapCollection]


def collection_ids(names: Sequence[str]) -> list[str]:
    """A different id for each release, made from its name, that can be part of a URL.

    >>> collection_ids(["march", "my map", "march", ".."])
    ['march', 'my-map', 'march-2', 'map']
    """
    plain = [re.sub(r"[^A-Za-z0-9._~-]+", "-", name).strip("-.") or "map" for name in names]
    found: list[str] = []
    for name in plain:
        number, one = 1, name
        while one in found or (number > 1 and one in plain):
            number += 1
            one = f"{name}-{number}"
        found.append(one)
    return found


def crs_codes(grid: Grid) -> dict[str, str]:
    """The coordinate reference systems that queries may be in, by each name they have here: their codes."""
    codes = {CRS84: DEGREES, "OGC:CRS84": DEGREES, DEGREES: DEGREES}
    return codes if has_degrees(grid) else {**codes, grid.crs: grid.crs}


def has_degrees(grid: Grid) -> bool:
    """Whether the axes of a grid are longitude and latitude on WGS 84."""
    return parse_crs(grid.crs).equals(parse_crs(DEGREES), ignore_axis_order=True)


def descriptions(release: Release) -> dict[str, tuple[str, str]]:
    """The parameters of a release by name, such as trips, low and high, each with a label and a description."""
    counted = release.provenance.counted
    which = f" The trips are {counted}." if counted else ""
    value = release.provenance.column("trips")
    found = {value: ("Distinct trips", f"Estimated number of distinct trips.{which} {NOT_ADDED_UP}")}
    if release.uncertainty is not None:
        for name, end in (("low", "Lower"), ("high", "Upper")):
            words = f"{end} end of the confidence interval, at {CONFIDENCE:g} unless `confidence` says otherwise."
            found[name] = f"Distinct trips, {end.lower()} end", words
    return found


def landing_page(root: str) -> LandingPageModel:
    """Where everything is; `root` is the address of the server, without a slash at the end."""
    return LandingPageModel(
        title="dqam: differentially private maps of trajectories",
        description=f"Number of distinct trips through any area of published maps. {NOT_ADDED_UP}",
        links=[
            _link(f"{root}/edr", "self", "application/json", "This page"),
            _link(f"{root}/", "alternate", "text/html", "The maps in the browser"),
            _link(f"{root}/edr/conformance", "conformance", "application/json", "Supported parts of the standard"),
            _link(f"{root}/edr/collections", "data", "application/json", "The releases"),
            _link(
                f"{root}/openapi.json",
                "service-desc",
                "application/vnd.oai.openapi+json;version=3.1",
                "The API, as OpenAPI",
            ),
            _link(f"{root}/api", "service-doc", "text/html", "The API, for people"),
        ],
    )


def conformance() -> ConformanceModel:
    """The conformance classes, each of which has a test."""
    return ConformanceModel(conformsTo=list(CONFORMANCE))


def collections(root: str, releases: dict[str, Release]) -> MapCollections:
    """All releases, by id."""
    return MapCollections(
        links=[_link(f"{root}/edr/collections", "self", "application/json", "All releases")],
        collections=[collection(root, key, release) for key, release in releases.items()],
    )


def collection(root: str, key: str, release: Release) -> MapCollection:
    """One release."""
    provenance, here = release.provenance, f"{root}/edr/collections/{key}"
    west, south, east, north = in_degrees(np.array([release.grid.bounds]), release.grid)[0].tolist()
    crs = list(crs_codes(release.grid))
    queries = {}
    for name, title in QUERIES.items():
        supported = crs if name != "cube" or has_degrees(release.grid) else [release.grid.crs]
        options: dict[str, Any] = {
            "title": title,
            "output_formats": list(FORMATS),
            "default_output_format": COVERAGE,
            "crs_details": [{"crs": one, "wkt": parse_crs(AS_CRS.get(one, one)).to_wkt()} for one in supported],
        }
        variables = (  # a map has no heights
            CubeVariables(query_type=name, height_units=[], **options)
            if name == "cube"
            else Variables(query_type=name, **options)
        )
        link = EDRQueryLink(href=f"{here}/{name}", rel="data", title=title, variables=variables)
        queries[name] = EDRQuery(link=link)
    return MapCollection(
        id=key,
        title=provenance.title or key,
        description=" ".join(part for part in (_about(release), release.note) if part),
        keywords=["trajectories", "mobility", "differential privacy"],
        links=[
            _link(here, "self", "application/json", "This release"),
            *(_link(f"{here}/{name}", "data", COVERAGE_TYPE, title) for name, title in QUERIES.items()),
        ],
        extent=Extent(
            spatial=Spatial(bbox=[[_wrapped(west), south, _wrapped(east), north]], crs=CRS84), custom=_slices(release)
        ),
        data_queries=DataQueries(**queries),
        crs=crs,
        output_formats=list(FORMATS),
        parameter_names=Parameters(
            {name: _parameter(name, label, words) for name, (label, words) in descriptions(release).items()}
        ),
        privacy=Privacy(
            promise=provenance.promise,
            private=provenance.private,
            epsilon=float(provenance.epsilon),
            delta=float(provenance.delta),
            unit=UnitInfo(name=provenance.unit.name, max_trips=provenance.unit.max_trips),
            counted=provenance.counted or "all trips",
            mechanism=provenance.mechanism,
            release=provenance.id,
        ),
    )


def _about(release: Release) -> str:
    slices = f" {SLICES_ADD_UP}" if release.slices else ""
    return f"{release.provenance.promise} Number of distinct trips through any area. {NOT_ADDED_UP}{slices}"


def _parameter(name: str, label: str, words: str) -> Parameter:
    return Parameter.model_validate(
        {
            "id": name,
            "label": label,
            "description": words,
            "data-type": "float",
            "unit": Unit(label="trips", symbol=UCUM),
            "observedProperty": ObservedProperty(label=label, description=words),
        }
    )


def _slices(release: Release) -> list[Custom] | None:
    if not release.slices:
        return None
    zone = release.provenance.timezone
    clock = f" in {zone}" if zone else ""
    words = (
        f"The slice that the start of a trip is in, by the rule {release.provenance.slices!r}{clock}. Slices by hour, "
        "weekday or month recur: they are not instants, so datetime cannot select them. "
        f"{SLICES_ADD_UP}"
    )
    names: list[str | float] = list(release.slices)
    return [Custom(id="slice", interval=[[names[0], names[-1]]], values=names, reference=words)]


def _wrapped(longitude: float) -> float:
    """A longitude that continues beyond the 180th meridian, in its usual range."""
    return longitude if abs(longitude) <= 180 else (longitude + 180) % 360 - 180


def _link(href: str, rel: str, kind: str, title: str) -> Link:
    return Link(href=href, rel=rel, type=kind, title=title)
