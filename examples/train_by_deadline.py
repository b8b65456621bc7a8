"""Train a classifier of handwritten digits by a deadline, with neither a loop nor a number of GPUs.

On a cluster with a scheduler (`raysched start --policy elasticflow`):

    ray job submit --working-dir . -- python examples/train_by_deadline.py
"""

import torch
from sklearn.datasets import load_digits
from torch.utils.data import TensorDataset

import raysched

digits = load_digits()
images, labels = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)

if __name__ == "__main__":
    result = raysched.train(
        model=lambda: torch.nn.Sequential(
            torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
        ),
        data=lambda: TensorDataset(images, labels),
        loss=torch.nn.functional.cross_entropy,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=3e-3),
        epochs=20,
        batch_size=64,
        deadline="10m",
        name="digits",
    )
    print(f"loss {(result.metrics or {})['loss']:.3f}")
