"""Answers as CoverageJSON and as GeoJSON, for OGC API - EDR.

The number of trips through a polygon is a coverage with the domain type Polygon, whose only value is that number. A
multipolygon has one number too. The domain type MultiPolygon would have one for each polygon, and these cannot be added
up; so the domain has no type, and its only coordinate is the whole multipolygon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import shapely
from covjson_pydantic.coverage import Coverage, CoverageCollection
from covjson_pydantic.domain import Axes, Domain, DomainType, ValuesAxis
from covjson_pydantic.ndarray import NdArrayFloat
from covjson_pydantic.observed_property import ObservedProperty
from covjson_pydantic.parameter import Parameter, Parameters
from covjson_pydantic.reference_system import ReferenceSystem, ReferenceSystemConnectionObject
from covjson_pydantic.unit import Symbol, Unit

from dqam.explorer.edr_metadata import CRS84, UCUM, descriptions
from dqam.explorer.facts import null_for_nan
from dqam.explorer.geojson import NOTES
from dqam.explorer.layer import outlines
from dqam.geometry.areas import PlacedAreas
from dqam.geometry.arrays import Floats
from dqam.geometry.grid import DEGREES, is_degrees, parse_crs, transform
from dqam.release.answers import Answers
from dqam.release.release import Release

MULTIPOLYGON = "http://www.opengis.net/ont/sf#MultiPolygon"


@dataclass(frozen=True, eq=False)
class Found:
    """What a query found.

    release     the release that was asked
    crs         the code of the CRS of `place`
    place       a point, a polygon or a multipolygon; or, for a grid, lines along x and along y, float64[n + 1] each
    answers     to this place or, for a grid, to its cells row by row from the south: for each slice that was asked for,
                or for all trips
    slices      the names of these slices; none for all trips
    parameters  the names of the parameters to show
    confidence  level of the intervals
    """

    release: Release
    crs: str
    place: shapely.Geometry | tuple[Floats, Floats]
    answers: Sequence[Answers]
    slices: Sequence[str]
    parameters: Sequence[str]
    confidence: float

    def columns(self, answers: Answers) -> dict[str, list[float | None]]:
        """The values of the parameters, by name."""
        found = dict(zip(descriptions(self.release), (answers.value, answers.low, answers.high), strict=False))
        return {name: null_for_nan(found[name].tolist()) for name in self.parameters}

    def flags(self, answers: Answers) -> dict[str, bool]:
        """What was changed about an area before it was answered."""
        shown = answers.flags if isinstance(answers.asked, PlacedAreas) else {}
        return {name: bool(flag[0]) for name, flag in shown.items()}

    def notes(self) -> dict[str, Any]:
        """What must accompany the numbers."""
        return {
            "release": self.release.provenance.id,
            "promise": self.release.provenance.promise,
            "confidence": self.confidence,
            "note": NOTES["areas"],
        }


def to_coverage(found: Found) -> Coverage | CoverageCollection:
    """One coverage or, for several slices, one for each."""
    about = descriptions(found.release)
    parameters = Parameters({name: _parameter(*about[name]) for name in found.parameters})
    notes = {f"dqam:{name}": value for name, value in found.notes().items()}
    domain = _domain(found)
    shape = () if isinstance(found.place, shapely.Geometry) else tuple(len(lines) - 1 for lines in found.place[::-1])
    coverages = []
    for i, answers in enumerate(found.answers):
        more: dict[str, Any] = {"id": f"slice {found.slices[i]}", "dqam:slice": found.slices[i]} if found.slices else {}
        more |= {f"dqam:{name}": flag for name, flag in found.flags(answers).items()}
        ranges: dict[str, Any] = {name: _array(values, shape) for name, values in found.columns(answers).items()}
        coverages.append(Coverage(domain=domain, ranges=ranges, **more))
    if len(coverages) == 1:
        return Coverage(**{**dict(coverages[0]), "parameters": parameters, **notes})
    return CoverageCollection(
        domainType=domain.domainType,
        coverages=coverages,
        parameters=parameters,
        referencing=domain.referencing,
        **notes,
    )


def to_geojson(found: Found) -> dict[str, Any]:
    """A FeatureCollection in degrees with a feature for each place and slice; cells follow each other from the
    south-west, row by row, for one slice after the other."""
    if isinstance(found.place, shapely.Geometry):
        shapes = [shapely.geometry.mapping(_in_degrees(found.place, found.crs))]
    else:
        bounds = found.answers[0].rectangles.bounds
        corners = np.stack(outlines(bounds, found.release.grid), axis=2)
        closed = np.concatenate([corners, corners[:, :1]], axis=1)
        shapes = [{"type": "Polygon", "coordinates": [ring]} for ring in closed.tolist()]
    features = []
    for i, answers in enumerate(found.answers):
        called = {"slice": found.slices[i]} if found.slices else {}
        columns, flags = found.columns(answers), found.flags(answers)
        for shape, *row in zip(shapes, *columns.values(), strict=True):
            properties = {**called, **dict(zip(columns, row, strict=True)), **flags}
            features.append({"type": "Feature", "geometry": shape, "properties": properties})
    return {"type": "FeatureCollection", **found.notes(), "features": features}


def _domain(found: Found) -> Domain:
    place = found.place
    referencing = [_reference(found.crs)]
    if not isinstance(place, shapely.Geometry):
        x, y = (_axis(lines) for lines in place)
        return Domain(domainType=DomainType.grid, axes=Axes(x=x, y=y), referencing=referencing)
    if isinstance(place, shapely.Point):
        x, y = (ValuesAxis[float](values=[side]) for side in (place.x, place.y))
        return Domain(domainType=DomainType.point, axes=Axes(x=x, y=y), referencing=referencing)
    if isinstance(place, shapely.MultiPolygon) and len(place.geoms) == 1:
        place = place.geoms[0]
    whole = isinstance(place, shapely.MultiPolygon)
    coordinates = tuple(shapely.geometry.mapping(place)["coordinates"])
    composite = ValuesAxis[tuple](  # type: ignore[type-arg]
        dataType=MULTIPOLYGON if whole else "polygon", coordinates=["x", "y"], values=[coordinates]
    )
    return Domain(
        domainType=None if whole else DomainType.polygon, axes=Axes(composite=composite), referencing=referencing
    )


def _axis(lines: Floats) -> ValuesAxis[float]:
    """The middles of cells, and their bounds."""
    bounds = np.stack([lines[:-1], lines[1:]], axis=1).ravel().tolist()
    return ValuesAxis[float](values=((lines[:-1] + lines[1:]) / 2).tolist(), bounds=bounds)


def _array(values: list[float | None], shape: tuple[int, ...]) -> NdArrayFloat:
    return (
        NdArrayFloat(values=values, axisNames=["y", "x"], shape=list(shape)) if shape else NdArrayFloat(values=values)
    )


def _reference(crs: str) -> ReferenceSystemConnectionObject:
    """The CRS of x and y, which are always east and north; its own axes may be in another order."""
    if crs == DEGREES:
        axes, uri = ["x", "y"], CRS84
    else:
        first = parse_crs(crs).axis_info[0].direction
        authority, _, code = crs.partition(":")
        axes = ["y", "x"] if first in ("north", "south") else ["x", "y"]
        uri = f"http://www.opengis.net/def/crs/{authority}/0/{code}"
    kind: Literal["GeographicCRS", "ProjectedCRS"] = "GeographicCRS" if is_degrees(crs) else "ProjectedCRS"
    return ReferenceSystemConnectionObject(coordinates=axes, system=ReferenceSystem(type=kind, id=uri))


def _parameter(label: str, words: str) -> Parameter:
    return Parameter(
        description={"en": words},
        unit=Unit(label={"en": "trips"}, symbol=Symbol(value=UCUM.value, type=UCUM.type)),
        observedProperty=ObservedProperty(label={"en": label}),
    )


def _in_degrees(shape: shapely.Geometry, crs: str) -> shapely.Geometry:
    return shapely.transform(shape, lambda xy: np.stack(transform(xy[:, 0], xy[:, 1], crs, DEGREES), axis=1))
