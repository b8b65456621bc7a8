"""A service that reads handwritten digits: the demo's inference workload.

The model is a real one (multinomial logistic regression on scikit-learn's digits, 0.96 of unseen
images right). It is trained once by whoever deploys, in about 0.1 s, and handed to the replicas,
which so start without scikit-learn. Where there is no accelerator, a request also holds its
replica's simulated GPU for `device_s` (design, ruling 12), without using the CPU.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from serve_inference.deployment import InferencePool

PIXELS = 64  # 8 × 8
BRIGHTEST = 16
HELD_OUT_EVERY = 5  # every fifth image is asked for and not trained on

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DigitModel:
    """Weights `[64, 10]` and biases `[10]` of ten linear scores; the largest names the digit."""

    weights: Floats
    biases: Floats

    def digit(self, image: Floats) -> int:
        """The digit that an image of 64 pixels shows."""
        return int(np.argmax(image @ self.weights + self.biases))


@dataclass(frozen=True, slots=True)
class LabelledImages:
    """Images `[n, 64]` and the digits they show."""

    images: Floats
    digits: NDArray[np.int64]


def unseen_images() -> LabelledImages:
    """Images that the model was not trained on."""
    return _images(held_out=True)


def train_model() -> DigitModel:
    """Train on four fifths of the data set."""
    from sklearn.linear_model import LogisticRegression

    known = _images(held_out=False)
    # Scaled to [0, 1] the solver converges in a quarter of the steps; the weights undo it.
    fitted = LogisticRegression().fit(known.images / BRIGHTEST, known.digits)
    return DigitModel(fitted.coef_.T / BRIGHTEST, fitted.intercept_)


def _images(held_out: bool) -> LabelledImages:
    from sklearn.datasets import load_digits

    data = load_digits()
    chosen = (np.arange(len(data.target)) % HELD_OUT_EVERY == 0) == held_out
    return LabelledImages(data.data[chosen], data.target[chosen])


class DigitReplica:
    """Answers a JSON list of 64 pixels, as body or as `?image=`, with `{"digit": n}`."""

    def __init__(self, model: DigitModel, device_s: float) -> None:
        self._model = model
        self._device_s = device_s
        self._device = asyncio.Lock()  # a GPU works on one request at a time

    async def __call__(self, request: Request) -> dict[str, int] | Response:
        """Read the image, wait for the simulated GPU, answer."""
        body = await request.body() or request.query_params.get("image", "")
        image = parse_image(body)
        if image is None:
            return JSONResponse({"error": f"send a JSON list of {PIXELS} numbers"}, status_code=400)
        async with self._device:
            await asyncio.sleep(self._device_s)
        return {"digit": self._model.digit(image)}


DigitClassifier: serve.Deployment = serve.deployment(
    # A few wait at the replica, so that its GPU does not idle while the proxy finds the next one.
    max_ongoing_requests=4,
    ray_actor_options={"num_cpus": 0},  # simulated GPUs do not need a CPU kept free for them
)(DigitReplica)
"""Deploy with `deploy(DigitClassifier, digits_pool(...), train_model(), device_s)`."""


def parse_image(text: str | bytes) -> Floats | None:
    """An image from JSON; None if it is not a list of 64 finite numbers."""
    try:
        image = np.asarray(json.loads(text), dtype=np.float64)
    except (ValueError, TypeError):
        return None
    return image if image.shape == (PIXELS,) and bool(np.isfinite(image).all()) else None


def digits_pool(device_s: float, http_port: int, min_servers: int = 1) -> InferencePool:
    """Two replicas of two GPUs on a server of four. A replica serves one request per `device_s`."""
    return InferencePool(
        app="digits",
        deployment="DigitClassifier",
        gpus_per_replica=2,
        replicas_per_server=2,
        replica_rps=1 / device_s,
        http_port=http_port,
        min_servers=min_servers,
    )
