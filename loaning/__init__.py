"""Capacity loaning: which inference servers training may use, and which come back, when.

Pure: no Ray, no clock, no I/O. `loaning.problem` is the contract.
"""
