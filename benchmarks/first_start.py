"""What kernels cost where a process starts: compiled once, then loaded from numba's cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

_START = "import loaning.orchestrator, policies.oasis, raysched.buddy, " + ", ".join(
    f"policies.{name}" for name in ("aryl", "elasticflow", "ffdl", "modelarts")
)


def first_start_s() -> tuple[float, float]:
    """Seconds of a fresh process until all kernels are ready: nothing cached, all cached."""
    with tempfile.TemporaryDirectory() as cache:
        return _start_s(cache), _start_s(cache)


def _start_s(cache: str) -> float:
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    begin_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", _START], env=environment, check=True)
    return time.perf_counter() - begin_s
