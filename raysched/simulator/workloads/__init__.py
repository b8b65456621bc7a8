"""Workloads that are drawn, not read: each a pure function of its parameters and a seed."""
