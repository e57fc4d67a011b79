"""The data sets of the experiments."""

from pathlib import Path

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.experiments import datasets
from dqam.geometry.trips import Trips
from dqam.sources import read


def test_trips_wholly_inside_are_chosen_by_seed() -> None:
    trips = Trips.from_lists([[(0, 0), (1, 1)], [(0.5, 0.5), (3, 3)], [(0.2, 0.2)], [(1, 0), (0, 1), (0.5, 0.5)]])
    inside = datasets.wholly_inside(trips, (0, 0, 1, 1))
    assert np.diff(inside.offsets).tolist() == [2, 1, 3]
    assert inside.x.tolist() == [0, 1, 0.2, 1, 0, 0.5]
    assert len(datasets._chosen(inside, 2, 0)) == 2
    assert inside.time is not None
    assert inside.time[:3].tolist() == [0, 15_000_000, 0]


def test_trips_are_made_once(tmp_path: Path) -> None:
    skewed, _ = datasets.made_up()
    path = datasets.generated_file(skewed, 30, 1, tmp_path, lambda share: None)
    written = path.stat().st_mtime_ns
    assert len(read(path).trips()) == 30
    assert datasets.generated_file(skewed, 30, 1, tmp_path, lambda share: None) == path
    assert path.stat().st_mtime_ns == written
    assert len({skewed.file(30, 1), skewed.file(30, 2), skewed.file(31, 1)}) == 3


def test_a_folder_of_data_must_be_complete(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no folder"):
        datasets.real(tmp_path / "nowhere")
    (tmp_path / "porto_roads.csv.gz").write_bytes(b"")
    with pytest.raises(InputError, match="lacks porto_sample.csv.gz, melbourne_nodes.csv.gz, melbourne_edges.csv.gz;"):
        datasets.real(tmp_path)
