"""Public priors: what may be one, and how it is brought to the grid of a map."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dqam
from dqam import cities
from dqam.errors import InputError
from dqam.geometry.grid import Grid, transform
from dqam.geometry.rectangles import Snapped, random_rectangles
from dqam.publishing.plan import Plan
from dqam.publishing.priors import PublicPrior
from dqam.release.release import Release
from tests.release.cases import HERE, seeded

(TRIPS,) = cities.city_trips(1_000, 0)
GRID = Grid.over(cities.BOUNDS, 4)
MIDDLE = (np.add(GRID.bounds[:2], GRID.bounds[2:]) / 2).tolist() * 2


@pytest.fixture(scope="module")
def release() -> Release:
    return dqam.publish(TRIPS, GRID, 20, dataset="prior", sure=True)


def raster(
    path: Path, values: np.ndarray, bounds: tuple[float, ...], crs: str | None = "EPSG:4326", **more: object
) -> Path:
    rasterio = pytest.importorskip("rasterio")
    rows, columns = values.shape
    place = rasterio.transform.from_bounds(*bounds, columns, rows)
    profile = {"driver": "GTiff", "width": columns, "height": rows, "count": 1, "dtype": values.dtype, "crs": crs}
    with rasterio.open(path, "w", transform=place, **profile, **more) as file:
        file.write(values, 1)
    return path


def test_a_release_on_the_same_grid_is_used_with_its_crossings(release: Release, tmp_path: Path) -> None:
    found = PublicPrior.of(release, GRID)
    assert found.pattern.histogram is not None
    assert found.pattern.histogram.is_monotone()
    assert release.provenance.id in found.source
    release.save(tmp_path / "old.nc")
    again = PublicPrior.of(tmp_path / "old.nc", GRID)
    assert np.array_equal(again.pattern.density, found.pattern.density)
    assert "sha256" in again.source


def test_other_mechanisms_and_slices_give_a_density() -> None:
    other = dqam.publish(TRIPS, GRID, 5, mechanism="laplace", dataset="laplace", sure=True)
    assert (PublicPrior.of(other, GRID).pattern.density >= 0).all()
    sliced = dqam.publish(TRIPS, GRID, 5, by="hour", dataset="sliced", sure=True)
    assert PublicPrior.of(sliced, GRID).pattern.histogram is not None
    assert PublicPrior.of(sliced.select(["07", "08"]), GRID).pattern.density.sum() > 0


def test_a_release_on_another_grid_is_resampled(release: Release) -> None:
    west, south, east, north = GRID.bounds
    inner = Grid((west, south, (west + east) / 2, (south + north) / 2), 4, 4)
    found = PublicPrior.of(release, inner).pattern
    assert found.histogram is None
    whole = PublicPrior.of(release, GRID).pattern.density
    exact = whole[:8, :8].reshape(4, 2, 4, 2).mean(axis=(1, 3))
    assert np.allclose(found.density / found.density.sum(), exact / exact.sum())
    with pytest.raises(InputError, match="covers only 0% of the map"):
        PublicPrior.of(release, Grid.over(HERE, 4))
    wider = Grid((west, south, east + (east - west), north), 8, 8)
    with pytest.raises(InputError, match="covers only 50% of the map"):
        PublicPrior.of(release, wider)


def test_a_release_in_another_crs_is_resampled(release: Release) -> None:
    west, south, east, north = (middle + (side - middle) / 2 for side, middle in zip(GRID.bounds, MIDDLE, strict=True))
    x, y = transform(np.array([west, east]), np.array([south, north]), GRID.crs, "EPSG:3857")
    grid = Grid((float(x[0]), float(y[0]), float(x[1]), float(y[1])), 8, 8, "EPSG:3857")
    found, exact = PublicPrior.of(release, grid).pattern.density, PublicPrior.of(release, GRID).pattern.density
    assert np.corrcoef(found.ravel(), exact[4:12, 4:12].ravel())[0, 1] > 0.99


def test_a_seeded_release_is_refused() -> None:
    with pytest.raises(InputError, match="not private"):
        PublicPrior.of(seeded(), seeded().grid)


def test_a_geotiff_of_any_density_north_up(tmp_path: Path) -> None:
    values = np.zeros((16, 16), np.float32)
    values[0, :4] = 3.0  # in the north-west
    found = PublicPrior.of(raster(tmp_path / "people.tif", values, GRID.bounds), GRID)
    assert np.argwhere(found.pattern.density > 0.5).tolist() == [[15, j] for j in range(4)]
    assert found.source.startswith("GeoTIFF 'people.tif', sha256 ")
    coarse = PublicPrior.of(raster(tmp_path / "coarse.tif", np.array([[1, 0], [0, 1]], np.float32), GRID.bounds), GRID)
    assert coarse.pattern.density[:8, 8:].min() == 1
    west, south, east, north = GRID.bounds
    around = west - 1, south - 1, east + 1, north + 1
    assert PublicPrior.of(raster(tmp_path / "wide.tif", np.ones((9, 9)), around), GRID).pattern.density.min() == 1


def test_a_geotiff_in_another_crs_and_without_data_in_places(tmp_path: Path) -> None:
    pytest.importorskip("rasterio")
    grid = Grid((310_000, 5_805_000, 330_000, 5_825_000), 8, 8, "EPSG:28355")
    values = np.full((50, 50), 2.0)
    values[25:] = -9999
    values[:5] = np.nan
    path = raster(tmp_path / "people.tif", values, (144.0, -38.2, 146.0, -37.4), nodata=-9999)
    found = PublicPrior.of(path, grid).pattern.density
    assert found.shape == (8, 8)
    assert {0.0, 1.0} >= set(np.round(found.ravel(), 9)[[0, -1]])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros((4, 4)), "0 everywhere"),
        (np.full((4, 4), np.nan), "0 everywhere"),
        (np.full((4, 4), -1.0), "negative"),
        (np.full((4, 4), np.inf), "not finite"),
    ],
)
def test_values_that_cannot_be_a_density_are_refused(tmp_path: Path, values: np.ndarray, words: str) -> None:
    with pytest.raises(InputError, match=words):
        PublicPrior.of(raster(tmp_path / "odd.tif", values, GRID.bounds), GRID)


def test_files_that_cannot_be_a_prior_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("rasterio")
    with pytest.raises(InputError, match="CRS"):
        PublicPrior.of(raster(tmp_path / "bare.tif", np.ones((4, 4)), GRID.bounds, None), GRID)
    with pytest.raises(InputError, match="covers only"):
        PublicPrior.of(raster(tmp_path / "away.tif", np.ones((4, 4)), (0, 0, 1, 1)), GRID)
    with pytest.raises(InputError, match="check the path"):
        PublicPrior.of(tmp_path / "none.tif", GRID)
    (tmp_path / "text.tif").write_text("no raster")
    with pytest.raises(InputError, match="cannot be read as a GeoTIFF"):
        PublicPrior.of(tmp_path / "text.tif", GRID)
    for wrong in (tmp_path / "prior.csv", 3):
        with pytest.raises(InputError, match="prior must be a Release"):
            PublicPrior.of(wrong, GRID)  # type: ignore[arg-type]


def test_a_geotiff_of_a_seeded_release_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("rasterio")
    from dqam.release.export import export

    export(seeded(), tmp_path / "seeded.tif")
    with pytest.raises(InputError, match="not private"):
        PublicPrior.of(tmp_path / "seeded.tif", seeded().grid)


def test_the_prior_is_declared_and_saved(release: Release, tmp_path: Path) -> None:
    made = dqam.publish(TRIPS, GRID, "0.2", prior=release, dataset="few", sure=True)
    assert made.provenance.prior == PublicPrior.of(release, GRID).source
    made.save(tmp_path / "few.nc")
    opened = dqam.open(tmp_path / "few.nc")
    assert opened.provenance.prior == made.provenance.prior
    page = opened.report()
    assert release.provenance.id in page
    assert "Public prior" in page
    counted = dqam.publish(TRIPS, GRID, "0.01", prior=release, dataset="counted", sure=True)
    assert "spread as in the prior" in counted.note
    assert "spread evenly" in replace(counted, provenance=replace(counted.provenance, prior="")).note


@pytest.mark.parametrize("delta", [None, "1e-8"])
def test_a_prior_and_slices_work_together(release: Release, delta: str | None, tmp_path: Path) -> None:
    people = replace(TRIPS, persons=pa.array([str(i // 5) for i in range(len(TRIPS))]))
    made = dqam.publish(
        people,
        GRID,
        2,
        delta=delta,
        by="hour",
        prior=release,
        unit="person",
        max_trips="auto",
        dataset=f"all, {delta}",
        sure=True,
    )
    made.save(tmp_path / "all.nc")
    asked = Snapped.of(random_rectangles(GRID, 300, np.random.default_rng(0)), GRID)
    for each in (made, dqam.open(tmp_path / "all.nc")):
        assert release.provenance.id in each.provenance.prior
        assert len(each.slices) == 24
        assert each.provenance.max_trips_chosen
        whole = each.histogram.answers(asked.cells)
        np.testing.assert_array_equal(each.values_by_slice(asked).sum(axis=0), whole)  # to the bit
        np.testing.assert_array_equal(whole, made.histogram.answers(asked.cells))
        assert each.histogram.is_monotone()


def test_only_flux_takes_a_prior(release: Release) -> None:
    with pytest.raises(InputError, match="needs the mechanism 'flux'"):
        Plan.of(GRID, 1, "uniform", prior=release)
