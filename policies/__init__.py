"""Scheduling policies: who gets how many workers. Pure: no Ray, no clock, no I/O.

`policies.problem` is the contract, `policies.registry` finds policies by name, one file holds
one published system.
"""
