"""Fixtures and settings that all tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from raysched.runtime.local import LocalCluster

# No deadline: an example that compiles a kernel takes seconds, the next one microseconds.
# `ci` tries the same examples on every machine; `all` explores; `mutants` is `ci`, content with
# the first example that fails.
settings.register_profile("ci", max_examples=25, deadline=None, derandomize=True)
settings.register_profile(
    "mutants", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate)
)
settings.register_profile("all", max_examples=500, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[LocalCluster]:
    """One Ray cluster for all real tests: 2 training and 2 inference servers of 4 GPUs each.

    A policy of a third party is installed in it, as a package on the path would be.
    """
    from serve_inference.deployment import SERVE_ENVIRONMENT

    third_party = Path(__file__).parent / "real" / "third_party"
    path = os.pathsep.join(filter(None, [str(third_party), os.environ.get("PYTHONPATH")]))
    with LocalCluster(environment={**SERVE_ENVIRONMENT, "PYTHONPATH": path}) as cluster:
        yield cluster
