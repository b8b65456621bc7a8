"""Faults that a careful person could make, a line each: `tests.mutants` puts them in by itself."""

from tests.faults import engine, loaning, policies, servers, serving, training

FAULTS = (
    *policies.FAULTS,
    *loaning.FAULTS,
    *engine.FAULTS,
    *serving.FAULTS,
    *training.FAULTS,
    *servers.FAULTS,
)
