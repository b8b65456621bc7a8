"""Training a classifier of handwritten digits: what the demo's jobs and the example run.

The data set is scikit-learn's: 1,797 images of 8 by 8 pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

CLASSES = 10
PIXELS = 64
_BRIGHTEST = 16
_TEST_SHARE = 5  # every fifth image is kept for testing

Data = dict[str, npt.NDArray[np.uint8]]


def load_digits() -> Data:
    """Return images and labels, of which each fifth is for testing.

    Loaded once by the driver and sent to the workers: importing scikit-learn costs a worker more
    time than a whole epoch.
    """
    from sklearn.datasets import load_digits as load

    digits = load()
    return {"images": digits.data.astype(np.uint8), "labels": digits.target.astype(np.uint8)}


def build_model(width: int = 128) -> Any:
    """Return a small multilayer perceptron."""
    from torch import nn

    return nn.Sequential(
        nn.Linear(PIXELS, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, CLASSES),
    )


def train(config: dict[str, Any]) -> None:
    """Train on this worker's share of each batch; runs on all of them, however many there are.

    `config["data"]` is what `load_digits` returned; an epoch makes `config["passes"]` over it.
    """
    import torch
    from torch.nn.functional import cross_entropy

    import raysched

    data = config["data"]
    images = torch.tensor(data["images"], dtype=torch.float32) / _BRIGHTEST
    labels = torch.tensor(data["labels"], dtype=torch.int64)
    is_test = torch.arange(len(images)) % _TEST_SHARE == 0

    torch.manual_seed(0)
    model = raysched.prepare(build_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    device = next(model.parameters()).device
    images, labels, is_test = images.to(device), labels.to(device), is_test.to(device)
    train_images, train_labels = images[~is_test], labels[~is_test]

    samples = len(train_images)
    for _epoch in raysched.epochs(model, optimizer):
        loss = torch.zeros(())
        for drawn, weight in raysched.batches(samples * config.get("passes", 1)):
            indices = drawn % samples
            loss = weight * cross_entropy(model(train_images[indices]), train_labels[indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            guesses = model(images[is_test]).argmax(dim=1)
        accuracy = (guesses == labels[is_test]).float().mean()
        raysched.report(loss=loss.item(), accuracy=accuracy.item())
