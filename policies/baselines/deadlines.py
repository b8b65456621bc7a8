"""What the EDF family shares: the order, and the sizes that a job may take."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from policies.problem import Ints, Jobs, PolicyError
from policies.sizes import Sizes

Reading: TypeAlias = Literal["clean", "published"]
"""`clean`: as the paper has it. `published`: as in the simulator that ElasticFlow's authors
published, for the figures of their paper. EDF then takes all the GPUs that a job may have, even
where it is slower on them than on fewer; 001 §6.1 says "without decreasing the throughput"."""


def by_deadline(jobs: Jobs) -> Ints:
    """[jobs] Rows, earliest deadline first; ties by submission."""
    order: Ints = np.argsort(jobs.deadline_s, kind="stable")
    return order


def sizes_of(jobs: Jobs, reading: Reading) -> Sizes:
    """Powers of two workers from min to max (001 §4.3); the minimum where none lies in the range.

    In the `published` reading speeds need not ascend with GPUs.
    """
    return Sizes.of(jobs, powers_of_two=True, slower=reading == "published")


def check_reading(reading: str) -> None:
    """Raise `PolicyError` for a reading that there is not."""
    if reading not in ("clean", "published"):
        raise PolicyError(f"reading is {reading!r}; use 'clean' or 'published'")
