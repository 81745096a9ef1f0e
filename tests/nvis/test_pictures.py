import numpy as np
import pytest

from nvis.pictures import colour_channels, gradient_picture, percent_of_strongest, state_picture


@pytest.mark.parametrize(
    ("screens", "channels"), [(1, (0, 0, 0)), (2, (0, 0, 1)), (3, (0, 1, 2)), (4, (1, 2, 3)), (6, (3, 4, 5))]
)
def test_the_last_three_screens_are_red_green_and_blue(screens: int, channels: tuple[int, ...]) -> None:
    state = np.arange(screens, dtype=np.uint8)[:, np.newaxis, np.newaxis] * np.ones((1, 4, 5), np.uint8)
    assert colour_channels(state).shape == (4, 5, 3)
    assert (colour_channels(state) == channels).all()


def test_a_state_as_the_browser_reads_its_bytes() -> None:
    state = np.random.default_rng(0).integers(0, 256, (4, 3, 5), dtype=np.uint8)
    pixels = state_picture(state).view(np.uint8).reshape(3, 5, 4)
    for row in range(3):
        for column in range(5):
            assert pixels[row, column].tolist() == [*state[1:, row, column].tolist(), 255]


def test_a_gradient_is_grey_where_it_is_nothing_and_full_where_it_is_strongest() -> None:
    gradient = np.zeros((3, 2, 2), np.float32)
    gradient[0, 0, 0], gradient[1, 0, 1], gradient[2, 1, 0] = -4e-3, 2e-3, 4e-3
    pixels = gradient_picture(gradient).view(np.uint8).reshape(2, 2, 4)
    assert pixels.tolist() == [
        [[0, 128, 128, 255], [128, 191, 128, 255]],
        [[128, 128, 255, 255], [128, 128, 128, 255]],
    ]
    assert (gradient_picture(np.zeros((3, 2, 2), np.float32)).view(np.uint8)[:, :3] == 128).all()


def test_saliency_is_a_share_of_the_strongest_pixel_of_its_state() -> None:
    gradients = np.zeros((3, 2, 2, 2), np.float32)
    gradients[0, :, 0, 0] = (-8, 2)
    gradients[0, :, 1, 1] = (1, 4)
    gradients[2, 1, 1, 0] = 1e-9
    assert percent_of_strongest(gradients).tolist() == [
        [[100, 0], [0, 50]],
        [[0, 0], [0, 0]],
        [[0, 0], [100, 0]],
    ]
