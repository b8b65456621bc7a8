"""The digit service without Serve: the model and the images it accepts."""

import json
from dataclasses import replace

import numpy as np
import pytest

from serve_inference.digits import digits_pool, parse_image, train_model, unseen_images
from serve_inference.errors import InferenceError


def test_the_model_reads_unseen_digits():
    model, unseen = train_model(), unseen_images()
    right = sum(
        model.digit(image) == digit
        for image, digit in zip(unseen.images, unseen.digits, strict=True)
    )
    assert len(unseen.digits) == 360
    assert right / len(unseen.digits) >= 0.95


@pytest.mark.parametrize(
    "text",
    [
        *("", "no json", "{}", "null", "3", "[1, 2]", "[[1], 2]"),
        *(json.dumps(pixels) for pixels in (["a"] * 64, [float("nan")] * 64, [0] * 65)),
    ],
)
def test_anything_but_64_numbers_is_refused(text):
    assert parse_image(text) is None


def test_an_image_is_64_numbers():
    image = parse_image(json.dumps(list(range(64))))
    assert image is not None
    assert np.array_equal(image, np.arange(64.0))


def test_capacity_follows_from_the_device_time():
    pool = digits_pool(device_s=0.1, http_port=8000)
    assert pool.replica_rps == pytest.approx(10.0)
    assert pool.server_rps == pytest.approx(20.0)
    assert pool.server_gpus == 4
    assert pool.url == "http://127.0.0.1:8000/digits"


def test_a_pool_of_nothing_is_refused():
    with pytest.raises(InferenceError, match="replicas_per_server=0: must be above zero"):
        replace(digits_pool(device_s=0.1, http_port=8000), replicas_per_server=0)
