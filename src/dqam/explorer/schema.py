"""What the API takes and gives, as its OpenAPI description tells it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from dqam.geometry.grid import DEGREES
from dqam.release.release import CONFIDENCE

MOST_RECTANGLES = 10_000
CRS_PATTERN = r"^(grid|(EPSG|ESRI|OGC):[A-Za-z0-9]{1,10})$"

Sides = Annotated[
    list[float], Field(min_length=4, max_length=4, description="West, south, east, north.", examples=[[0, 0, 1, 1]])
]
CRS_MEANING = (
    "Of the four sides: an EPSG, ESRI or OGC code, or `grid` for that of the map. In degrees, west and east are "
    "longitudes, south and north latitudes."
)
CONFIDENCE_MEANING = "How often the true number should be between `low` and `high`; for large rectangles less often."


class Problem(BaseModel):
    """What went wrong."""

    error: str = Field(description="One sentence, with the value that was wrong and a way out.")


class Interval(BaseModel):
    """An estimated number of distinct trips."""

    value: float = Field(
        description="Estimated number of distinct trips; of those kept, where the unit of the release is a person."
    )
    low: float | None = Field(description="The true number is hardly below; null where the mechanism cannot tell.")
    high: float | None = Field(description="The true number is hardly above; null where the mechanism cannot tell.")


class Place(BaseModel):
    """The grid of a release."""

    bounds: Sides = Field(description="West, south, east, north in the CRS of the grid.")
    crs: str = Field(description="Coordinate reference system of the grid.")
    rows: int = Field(description="Cells from south to north.")
    columns: int = Field(description="Cells from west to east.")
    degrees: Sides = Field(description="The smallest rectangle around the grid in degrees (EPSG:4326).")
    cell_degrees: list[float] = Field(description="Width and height of a cell in degrees; about, in a projected CRS.")
    cell_metres: list[float] = Field(description="Width and height of a cell on the ground, in metres.")


class Whose(BaseModel):
    """Whose presence is hidden."""

    name: str = Field(description="`trip` or `person`.")
    max_trips: int = Field(description="So many trips of each are counted at most.")


class Published(BaseModel):
    """A release that this server shows."""

    n: int = Field(description="Its number here, for the other addresses.")
    name: str = Field(description="The name of its file.")
    title: str = Field(description="The title its publisher gave it.")
    promise: str = Field(description="What is promised, in words.")
    private: bool = Field(description="Whether it is private. If not, it is for tests and experiments.")
    epsilon: float = Field(description="The privacy budget that was spent: less is more private.")
    unit: Whose
    mechanism: str = Field(description="How it was made.")
    queries: str = Field(description="What the mechanism was to be good at.")
    gap: str = Field(description="The silence of the GPS at which trips were cut; empty for none.")
    created: str = Field(description="When it was published, in UTC.")
    id: str = Field(description="Of the publication.")
    grid: Place
    trips: Interval = Field(description=f"All distinct trips on the map, with a confidence of {CONFIDENCE:g}.")


class Background(BaseModel):
    """The map below the releases."""

    tiles: str | None = Field(description="Address of tiles with {z}, {x} and {y}; null for none.")
    attribution: str = Field(description="Whom to name for the tiles.")


class Counted(Interval):
    """The answer to a rectangle, and what rectangle was really answered."""

    confidence: float = Field(description=CONFIDENCE_MEANING)
    bounds: Sides = Field(description="The smallest rectangle in degrees around the cells that were answered.")
    grid_bounds: Sides = Field(description="The cells that were answered, in the CRS of the grid.")
    outline: list[list[float]] = Field(description="Their border as longitudes and latitudes, against the clock.")
    grown: bool = Field(description="Whether a side moved outward to the next grid line.")
    cut: bool = Field(description="Whether a part lay outside of the map.")


class Asked(BaseModel):
    """Rectangles to be answered."""

    model_config = ConfigDict(extra="forbid")

    rectangles: list[Annotated[list[Annotated[float, Field(strict=True)]], Field(min_length=4, max_length=4)]] = Field(
        min_length=1,
        max_length=MOST_RECTANGLES,
        description="West, south, east, north of each.",
        examples=[[[-30.02, 44.98, -29.98, 45.02], [-30.01, 44.99, -29.99, 45.01]]],
    )
    crs: str = Field(DEGREES, description=CRS_MEANING, json_schema_extra={"pattern": CRS_PATTERN})
    confidence: float = Field(CONFIDENCE, ge=0.01, le=0.9999, strict=True, description=CONFIDENCE_MEANING)


class CountedAll(BaseModel):
    """Answers in the order of the rectangles: each list has an item for each."""

    confidence: float = Field(description=CONFIDENCE_MEANING)
    value: list[float] = Field(description="Estimated numbers of distinct trips.")
    low: list[float | None] = Field(description="The true numbers are hardly below; null where that is not known.")
    high: list[float | None] = Field(description="The true numbers are hardly above; null where that is not known.")
    bounds: list[Sides] = Field(description="The smallest rectangles in degrees around the cells that were answered.")
    grid_bounds: list[Sides] = Field(description="The cells that were answered, in the CRS of the grid.")
    grown: list[bool] = Field(description="Whether a side moved outward to the next grid line.")
    cut: list[bool] = Field(description="Whether a part lay outside of the map.")


class LayerFacts(BaseModel):
    """What the bytes of a layer are."""

    width: int = Field(description="Pixels from west to east.")
    height: int = Field(description="Pixels from north to south.")
    bounds: Sides = Field(description="Of the image in degrees; between them pixels are even in Web Mercator.")
    block: list[int] = Field(description="Rows and columns of cells that a value is for.")
    largest: float = Field(description="The largest value.")
    meaning: str = Field(description="What a value is.")
    form: str = Field(description="How the values are laid out.")
