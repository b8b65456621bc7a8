"""Random numbers of a training process."""

from __future__ import annotations

import random
import sys

import torch


def seed_all(draw: int) -> None:
    """Seed what a training function may draw from."""
    torch.manual_seed(draw)
    random.seed(draw)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(draw % 2**32)
