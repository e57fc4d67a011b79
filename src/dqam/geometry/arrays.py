"""Type aliases of NumPy arrays, declared once for the whole package."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Integers32 = NDArray[np.int32]
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Labels = NDArray[np.int16]
Mask = NDArray[np.bool_]
Shapes = NDArray[np.object_]  # of shapely geometries
Numbers = NDArray[Any]  # int64 if counted, float64 if estimated
