"""The requests and responses of the API, as its OpenAPI description shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, StrictFloat, StrictInt, StrictStr

from dqam.geometry.grid import DEGREES
from dqam.release.published_map import CONFIDENCE

MOST_RECTANGLES = 10_000
MOST_FEATURES = 10_000
MOST_CORNERS = 300_000  # of all features together
CRS_PATTERN = r"^(grid|(EPSG|ESRI|OGC):[A-Za-z0-9]{1,10})$"

Sides = Annotated[
    list[float],
    Field(min_length=4, max_length=4, description="West, south, east and north side.", examples=[[0, 0, 1, 1]]),
]
CRS_MEANING = (
    "Coordinate reference system of the coordinates: an EPSG, ESRI or OGC code, or `grid` for that of the map. In "
    "degrees, west and east are longitudes, south and north are latitudes."
)
CONFIDENCE_MEANING = (
    "Confidence level of the interval from `low` to `high`. In some busy places the true coverage is lower."
)
SLICES_MEANING = (
    "Names of slices, separated by commas; only trips in these slices are counted. By default all trips are."
)
METRES_MEANING = "Width and height on the ground, in metres, with cells as large as in the middle of the map."


class ErrorMessage(BaseModel):
    """An error."""

    error: str = Field(description="One sentence that says what was wrong and what to do instead.")


class Estimate(BaseModel):
    """An estimated number of distinct trips."""

    value: float = Field(description="Estimated number of distinct trips; `counted` of the release says of which.")
    low: float | None = Field(description="Lower end of the confidence interval; null if the mechanism gives none.")
    high: float | None = Field(description="Upper end of the confidence interval; null if the mechanism gives none.")


class GridInfo(BaseModel):
    """The grid of a release."""

    bounds: Sides = Field(description="West, south, east and north side, in the CRS of the grid.")
    crs: str = Field(description="Coordinate reference system of the grid.")
    rows: int = Field(description="Number of cells from south to north.")
    columns: int = Field(description="Number of cells from west to east.")
    degrees: Sides = Field(description="The smallest rectangle around the grid in degrees (EPSG:4326).")
    cell_degrees: list[float] = Field(
        description="Width and height of a cell in degrees; approximate for a projected CRS."
    )
    cell_metres: list[float] = Field(description="Width and height of a cell on the ground, in metres.")


class UnitInfo(BaseModel):
    """The unit of privacy: whose presence the release hides."""

    name: str = Field(description="`trip` or `person`.")
    max_trips: int = Field(description="At most this many trips of each unit were used.")


class ReleaseInfo(BaseModel):
    """A release that this server shows."""

    n: int = Field(description="Number of the release, for the other endpoints.")
    name: str = Field(description="Name of the file.")
    title: str = Field(description="Title, written by the publisher.")
    promise: str = Field(description="Privacy guarantee, in words.")
    private: bool = Field(description="Whether the release is private; if not, it is for tests and experiments only.")
    epsilon: float = Field(description="Privacy budget epsilon that was spent; smaller is more private.")
    delta: float | None = Field(
        description="Probability by which the guarantee of epsilon is weakened; null for pure differential privacy."
    )
    unit: UnitInfo
    counted: str = Field(
        description="Which trips the numbers count, such as `all trips` or `scaled up to all trips from at most 10 "
        "trips of each person`."
    )
    scaled_up: bool = Field(description="Whether counts of the trips that were used are scaled up to all trips.")
    compared_as: str = Field(
        description="What the numbers count. Two releases can be compared only if this is the same."
    )
    mechanism: str = Field(description="Name of the mechanism that made it.")
    queries: str = Field(description="The rectangles that the mechanism was tuned for.")
    gap: str = Field(description="GPS gap at which trips were split; empty if they were not split.")
    created: str = Field(description="Time of publication, in UTC.")
    id: str = Field(description="Id of the publication.")
    grid: GridInfo
    trips: Estimate = Field(
        description=f"Number of distinct trips on the whole map, with a confidence interval at {CONFIDENCE:g}."
    )
    slices: list[str] = Field(
        description="Names of the slices, in order, such as `00` to `23` for hours; every trip is in exactly one. "
        "Empty if the release has none."
    )
    sliced_by: str = Field(
        description="The rule that put each trip into a slice, such as `hour`; empty if there are no slices."
    )
    timezone: str = Field(
        description="Time zone in which clocks were read; empty if times were taken as they were written."
    )
    flows: bool = Field(description="Whether it has flows from area to area.")


class BackgroundTiles(BaseModel):
    """The background map."""

    tiles: str | None = Field(description="URL of the tiles with {z}, {x} and {y}; null for no background map.")
    attribution: str = Field(description="Whom to credit for the tiles.")


class Count(Estimate):
    """The answer for a rectangle, and the rectangle of whole cells that it is for."""

    confidence: float = Field(description=CONFIDENCE_MEANING)
    bounds: Sides = Field(description="Smallest rectangle in degrees around the answered cells.")
    grid_bounds: Sides = Field(description="Bounds of the answered cells, in the CRS of the grid.")
    outline: list[list[float]] = Field(
        description="Outline of the answered cells: longitudes and latitudes, counterclockwise."
    )
    cells: list[int] = Field(description="Columns and rows of cells that were answered.")
    metres: list[float | None] = Field(description=METRES_MEANING)
    grown: bool = Field(description="Whether a side moved outward to the next grid line.")
    cut: bool = Field(description="Whether a part outside the map was cut off.")


class CountsRequest(BaseModel):
    """A request for many rectangles."""

    model_config = ConfigDict(extra="forbid")

    rectangles: Annotated[
        list[Annotated[list[Annotated[float, Field(strict=True)]], FailFast(), Field(min_length=4, max_length=4)]],
        FailFast(),
    ] = Field(
        min_length=1,
        max_length=MOST_RECTANGLES,
        description="West, south, east and north side of each rectangle.",
        examples=[[[-30.02, 44.98, -29.98, 45.02], [-30.01, 44.99, -29.99, 45.01]]],
    )
    crs: str = Field(DEGREES, description=CRS_MEANING, json_schema_extra={"pattern": CRS_PATTERN})
    confidence: float = Field(CONFIDENCE, ge=0.01, le=0.9999, strict=True, description=CONFIDENCE_MEANING)


class Counts(BaseModel):
    """The answers, as lists with one item for each rectangle of the request, in the same order."""

    confidence: float = Field(description=CONFIDENCE_MEANING)
    value: list[float] = Field(description="Estimated numbers of distinct trips.")
    low: list[float | None] = Field(
        description="Lower ends of the confidence intervals; null if the mechanism gives none."
    )
    high: list[float | None] = Field(
        description="Upper ends of the confidence intervals; null if the mechanism gives none."
    )
    bounds: list[Sides] = Field(description="Smallest rectangles in degrees around the answered cells.")
    grid_bounds: list[Sides] = Field(description="Bounds of the answered cells, in the CRS of the grid.")
    cells: list[list[int]] = Field(description="Columns and rows of cells that were answered.")
    metres: list[list[float | None]] = Field(description=METRES_MEANING)
    grown: list[bool] = Field(description="Whether a side moved outward to the next grid line.")
    cut: list[bool] = Field(description="Whether a part outside the map was cut off.")


Position = Annotated[
    list[Annotated[float, Field(strict=True, allow_inf_nan=False)]],
    FailFast(),  # here and below: only the first error is shown, and millions of them would fill the memory
    Field(min_length=2, max_length=4, description="Longitude and latitude; further numbers are ignored."),
]
Ring = Annotated[
    list[Position], FailFast(), Field(min_length=4, description="A closed ring: its last position is its first.")
]
Line = Annotated[list[Position], FailFast(), Field(min_length=2)]
Id = Annotated[StrictStr | StrictInt | StrictFloat | None, Field(description="Returned unchanged.")]
Properties = Annotated[dict[str, Any] | None, Field(description="Returned, with those of the answer added.")]
SQUARE = [[-30.01, 44.99], [-29.99, 44.99], [-29.98, 45.01], [-30.01, 45.01], [-30.01, 44.99]]
BRIDGE = [[-30.01, 45.0], [-29.99, 45.001]]


class Polygon(BaseModel):
    """A polygon of GeoJSON."""

    type: Literal["Polygon"]
    coordinates: Annotated[list[Ring], FailFast()] = Field(
        min_length=1, description="The border, then the holes.", examples=[[SQUARE]]
    )


class MultiPolygon(BaseModel):
    """Several polygons as one area."""

    type: Literal["MultiPolygon"]
    coordinates: Annotated[list[Annotated[list[Ring], FailFast(), Field(min_length=1)]], FailFast()] = Field(
        min_length=1, description="The coordinates of each polygon.", examples=[[[SQUARE]]]
    )


class LineString(BaseModel):
    """A line of GeoJSON."""

    type: Literal["LineString"]
    coordinates: Line = Field(description="Its positions.", examples=[BRIDGE])


class MultiLineString(BaseModel):
    """Several lines as one."""

    type: Literal["MultiLineString"]
    coordinates: Annotated[list[Line], FailFast()] = Field(
        min_length=1, description="The positions of each line.", examples=[[BRIDGE]]
    )


AreaGeometry = Annotated[Polygon | MultiPolygon, Field(discriminator="type")]
LineGeometry = Annotated[LineString | MultiLineString, Field(discriminator="type")]


class AreaFeature(BaseModel):
    """An area with an id and properties."""

    type: Literal["Feature"]
    id: Id = None
    geometry: AreaGeometry
    properties: Properties = None


class AreaFeatures(BaseModel):
    """Areas to query."""

    type: Literal["FeatureCollection"]
    features: Annotated[list[AreaFeature], FailFast()] = Field(
        min_length=1, max_length=MOST_FEATURES, description="The areas."
    )


class LineFeature(BaseModel):
    """A line with an id and properties."""

    type: Literal["Feature"]
    id: Id = None
    geometry: LineGeometry
    properties: Properties = None


class LineFeatures(BaseModel):
    """Lines to query."""

    type: Literal["FeatureCollection"]
    features: Annotated[list[LineFeature], FailFast()] = Field(
        min_length=1, max_length=MOST_FEATURES, description="The lines."
    )


AreasRequest = Annotated[AreaFeatures | AreaFeature | Polygon | MultiPolygon, Field(discriminator="type")]
LinesRequest = Annotated[LineFeatures | LineFeature | LineString | MultiLineString, Field(discriminator="type")]
ShapeGeometry = Annotated[Polygon | MultiPolygon | LineString | MultiLineString, Field(discriminator="type")]


class ShapeFeature(BaseModel):
    """An area or line; what else the feature has is ignored."""

    type: Literal["Feature"]
    geometry: ShapeGeometry


ShapeRequest = Annotated[
    ShapeFeature | Polygon | MultiPolygon | LineString | MultiLineString, Field(discriminator="type")
]

Low = Annotated[float | None, Field(description="Lower end of the confidence interval; null if there is none.")]
High = Annotated[float | None, Field(description="Upper end of the confidence interval; null if there is none.")]
Cut = Annotated[bool, Field(description="Whether a part outside the map was cut off.")]
Outside = Annotated[bool, Field(description="Whether all of it is outside the map, so that there is no answer.")]


class AreaProperties(BaseModel):
    """The properties of an area as they were sent, and its answer."""

    model_config = ConfigDict(extra="allow")

    trips: float | None = Field(description="Estimated number of distinct trips; null outside the map.")
    low: Low
    high: High
    cells: float | None = Field(description="Size of the part on the map, in cells; null outside the map.")
    square_metres: float | None = Field(
        description="The same on the ground, with cells as large as in the middle of the map."
    )
    grown: bool = Field(
        description="Whether it is a rectangle along the axes of the grid and a side moved out to the next grid line."
    )
    cut: Cut
    repaired: bool = Field(description="Whether its border crossed itself and was repaired.")
    outside: Outside


class LineProperties(BaseModel):
    """The properties of a line as they were sent, and its answer."""

    model_config = ConfigDict(extra="allow")

    crossings: float | None = Field(
        description="Estimated number of times that trips cross it, which is not a number of distinct trips; null "
        "outside the map."
    )
    low: Low
    high: High
    metres: float | None = Field(
        description="Length of the part on the map, with cells as large as in the middle of the map; null outside it."
    )
    cut: Cut
    outside: Outside


class AnsweredArea(AreaFeature):
    """An area with its answer."""

    properties: AreaProperties  # type: ignore[assignment]


class AnsweredLine(LineFeature):
    """A line with its answer."""

    properties: LineProperties  # type: ignore[assignment]


class AnsweredFeatures(BaseModel):
    """What holds for all answers."""

    type: Literal["FeatureCollection"]
    release: str = Field(description="Id of the release that was queried.")
    promise: str = Field(description="Its privacy guarantee, in words.")
    confidence: float = Field(description=CONFIDENCE_MEANING)
    note: str = Field(description="What the numbers count.")


class AnsweredAreas(AnsweredFeatures):
    """The areas of the request, in the same order, with their answers."""

    features: list[AnsweredArea]


class AnsweredLines(AnsweredFeatures):
    """The lines of the request, in the same order, with their answers."""

    features: list[AnsweredLine]


class Profile(BaseModel):
    """The answers of all slices for one area or line, as lists with one item for each slice. They add up exactly."""

    slices: list[str] = Field(description="Names of the slices, in order.")
    trips: list[float] | None = Field(description="Estimated numbers of distinct trips; null for a line.")
    crossings: list[float] | None = Field(
        description="Estimated numbers of times that trips cross the line; null for an area."
    )
    low: list[float | None] = Field(
        description="Lower ends of the confidence intervals; null if the mechanism gives none."
    )
    high: list[float | None] = Field(
        description="Upper ends of the confidence intervals; null if the mechanism gives none."
    )
    total: Estimate = Field(description="The answer for all slices together.")
    confidence: float = Field(description=CONFIDENCE_MEANING)


class LayerInfo(BaseModel):
    """What the bytes of a layer mean."""

    width: int = Field(description="Number of pixels from west to east.")
    height: int = Field(description="Number of pixels from north to south.")
    bounds: Sides = Field(description="Bounds of the image in degrees; its pixels have equal size in Web Mercator.")
    block: list[int] = Field(description="Rows and columns of cells in one block.")
    largest: float = Field(description="Largest value.")
    largest_of_slices: float | None = Field(
        description="Largest value in the images of all single slices, for a common scale; null if there are no slices."
    )
    trips: Estimate = Field(
        description=f"Number of distinct trips on the whole map, with a confidence interval at {CONFIDENCE:g}."
    )
    meaning: str = Field(description="What a value means.")
    form: str = Field(description="Format of the values.")
