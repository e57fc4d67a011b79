"""The map of a release as a PNG."""

import io

import matplotlib.image
import numpy as np

from dqam.release.picture import png


def test_png_has_the_colours_of_its_palette() -> None:
    indices, palette = np.array([[0, 1, 2], [2, 1, 0]], np.uint8), np.arange(9, dtype=np.uint8).reshape(3, 3)
    image = matplotlib.image.imread(io.BytesIO(png(indices, palette)))
    np.testing.assert_allclose(image[:, :, :3] * 255, palette[indices], atol=1e-4)


def test_png_is_compressed_and_the_same_every_time() -> None:
    indices, palette = np.zeros((256, 256), np.uint8), np.zeros((256, 3), np.uint8)
    assert len(png(indices, palette)) < 2_000
    assert png(indices, palette) == png(indices, palette)
