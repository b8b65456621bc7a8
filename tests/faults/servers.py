"""Faults in training with parameter servers."""

from tests.faults.fault import Fault

_ROOM = "raysched/runtime/parameter_servers"

FAULTS = (
    Fault(
        "chunk-lost-with-worker",
        "what a worker that died had not finished is trained by nobody",
        f"{_ROOM}/chunks.py",
        "self._free.append(chunk)",
        "self._left -= 1",
        "tests/test_parameter_servers.py",
    ),
    Fault(
        "chunk-finished-by-anyone",
        "a chunk counts as finished because somebody else says so",
        f"{_ROOM}/chunks.py",
        "if self._with.get(worker) == chunk:",
        "if worker in self._with:",
        "tests/test_parameter_servers.py",
    ),
    Fault(
        "stale-gradient-applied",
        "a gradient of before a server was loaded anew is applied",
        f"{_ROOM}/server.py",
        "if loaded != self._loaded:",
        "if loaded > self._loaded:",
        "tests/test_parameter_servers.py",
    ),
    Fault(
        "momentum-left-behind",
        "what the optimizer keeps does not move with the parameters",
        f"{_ROOM}/server.py",
        "if kept or counts:",
        "if kept and not counts:",
        "tests/test_parameter_servers.py",
    ),
    Fault(
        "settings-of-another-group",
        "a learning rate reaches the wrong group where a server does not hold the first one",
        f"{_ROOM}/server.py",
        "group.update(settings[piece.group])",
        "group.update(settings[0])",
        "tests/test_parameter_servers.py",
    ),
    Fault(
        "more-servers-than-workers",
        "a job has more parameter servers than workers",
        "raysched/grants.py",
        "return min(job.parameter_servers or needed, workers)",
        "return job.parameter_servers or needed",
        "tests/test_grants.py",
    ),
)
