"""The requests and responses of the API about flows, as its OpenAPI description shows them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from dqam.explorer.schema import CONFIDENCE_MEANING, AreaFeature, AreaFeatures, Estimate, MultiPolygon, Polygon, Sides

MOST_PAIRED = 2_000  # zones of which all pairs are compared
MOST_ROWS = 10_000  # of a table of pairs

Area = Annotated[
    Annotated[list[FiniteFloat], Field(min_length=4, max_length=4)] | AreaFeature | Polygon | MultiPolygon | None,
    Field(description="West, south, east and north side of a rectangle; or a Polygon or MultiPolygon, or one such "
          "feature. Anywhere on the map if left out."),
]  # fmt: skip
Zones = Annotated[AreaFeatures | None, Field(description="Zones, as GeoJSON.")]
By = Annotated[
    Literal["cells", "tiles"],
    Field(
        description="Without zones: `cells` for a map in detail, or `tiles`, the larger squares between which trips "
        "were measured."
    ),
]


class FlowRequest(BaseModel):
    """Two areas."""

    model_config = ConfigDict(extra="forbid")

    from_: Area = Field(None, alias="from", examples=[[-30.02, 44.98, -30.0, 45.0]])
    to: Area = Field(None, examples=[[-30.0, 45.0, -29.98, 45.02]])


class FlowsRequest(FlowRequest):
    """One area, as `from` or as `to`, and what to divide its trips by."""

    zones: Zones = None
    by: By = "cells"


class LargestRequest(BaseModel):
    """Zones between which flows are to be compared."""

    model_config = ConfigDict(extra="forbid")

    zones: Zones = Field(None, description=f"At most {MOST_PAIRED:,} zones, as GeoJSON; the tiles by default.")
    k: int = Field(10, ge=1, le=MOST_ROWS, strict=True, description="Number of pairs to return.")


class PlacedArea(BaseModel):
    """How an area was changed before it was answered."""

    centre: list[float] = Field(description="Longitude and latitude of its centre.")
    grown: bool = Field(description="Whether it is a rectangle and a side moved outward to the next grid line.")
    cut: bool = Field(description="Whether a part outside the map was cut off.")
    repaired: bool = Field(description="Whether its border crossed itself and was repaired.")


class Flow(Estimate):
    """The number of trips that begin in one area and end in another."""

    confidence: float = Field(description=CONFIDENCE_MEANING)


class Flows(BaseModel):
    """Where the trips from an area go, or where those to it come from, as lists with one item for each place."""

    way: Literal["from", "to"] = Field(description="Whether trips begin in the area or end in it.")
    by: Literal["cells", "tiles", "zones"] = Field(
        description="What a place is. Cells and tiles are in the order of `/flows/lattice`, zones in that of the "
        "request."
    )
    trips: list[float | None] = Field(description="Estimated numbers of trips; null for a zone outside the map.")
    low: list[float | None] = Field(
        description="Lower ends of the confidence intervals; at 0, there are too few to tell."
    )
    high: list[float | None] = Field(description="Upper ends of the confidence intervals.")
    centres: list[list[float] | None] | None = Field(
        description="Longitude and latitude of the centre of each tile or zone; null for cells."
    )
    area: PlacedArea
    total: Estimate = Field(description="The trips between the area and anywhere on the map.")
    confidence: float = Field(description=CONFIDENCE_MEANING)


class LargestFlows(BaseModel):
    """The pairs with the most trips, the largest first, as lists with one item for each pair."""

    by: Literal["tiles", "zones"] = Field(description="What origins and destinations are.")
    origin: list[int] = Field(description="Positions of the origins, in `/flows/lattice` or in the request; from 0.")
    destination: list[int] = Field(description="Positions of the destinations.")
    trips: list[float] = Field(description="Estimated numbers of trips.")
    low: list[float] = Field(description="Lower ends of the confidence intervals; at 0, there are too few to tell.")
    high: list[float] = Field(description="Upper ends of the confidence intervals.")
    confidence: float = Field(description=CONFIDENCE_MEANING)


class FlowLattice(BaseModel):
    """The cells or tiles of flows, row by row from the south-west corner of the map."""

    rows: int = Field(description="Number of rows, from south to north.")
    columns: int = Field(description="Number of columns, from west to east.")
    longitude: list[float] = Field(
        description="Longitudes of the corners: (rows + 1) x (columns + 1), row by row from the south-west."
    )
    latitude: list[float] = Field(description="Latitudes of the corners.")
    bounds: Sides = Field(description="West, south, east and north side of the map, in the CRS of its grid.")
