"""Generated trips: in a made-up city that is pure code, and on the road networks of real cities.

Every generator yields batches of `Trips` in random order. The same seed gives the same bytes with any number of
threads.
"""

from dqam.cities.city import BOUNDS, city_trips, made_up_city
from dqam.cities.network import MELBOURNE_BOUNDS, uniform_trips
from dqam.cities.parquet import write_parquet
from dqam.cities.porto import PORTO_BOUNDS, porto_like_trips
from dqam.cities.roads import RoadNetwork

__all__ = [
    "BOUNDS",
    "MELBOURNE_BOUNDS",
    "PORTO_BOUNDS",
    "RoadNetwork",
    "city_trips",
    "made_up_city",
    "porto_like_trips",
    "uniform_trips",
    "write_parquet",
]
