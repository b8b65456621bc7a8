"""Faults in what is seen of inference, and in its load."""

from tests.faults.fault import Fault

FAULTS = (
    Fault(
        "proxy-restart-counted",
        "a proxy that started anew is read as one whose counters fell",
        "serve_inference/observer.py",
        "if now.proxy == then.proxy]",
        "]",
        "tests/serving/test_traffic.py",
    ),
    Fault(
        "errors-not-failed",
        "a request that the server answers with an error has not failed",
        "serve_inference/traffic.py",
        "status == 0 or status >= 500",
        "status == 0",
        "tests/serving/test_traffic.py",
    ),
    Fault(
        "percentile-next-rank",
        "a percentile is read one rank too high",
        "serve_inference/load.py",
        "math.ceil(quantile * len(ascending)) - 1",
        "math.ceil(quantile * len(ascending))",
        "tests/serving/test_load.py",
    ),
)
