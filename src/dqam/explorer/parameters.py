"""The parameters that several endpoints of the API have."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from dqam.explorer.schema import CONFIDENCE_MEANING, CRS_MEANING, CRS_PATTERN, SLICES_MEANING

Number = Annotated[int, Path(ge=0, description="Number of the release in the list of all releases.")]
Crs = Annotated[str, Query(description=CRS_MEANING, json_schema_extra={"pattern": CRS_PATTERN})]
Slices = Annotated[str | None, Query(description=SLICES_MEANING)]
Confidence = Annotated[float, Query(ge=0.01, le=0.9999, description=CONFIDENCE_MEANING)]
