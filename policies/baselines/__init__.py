"""Schedulers that the five systems are compared with, as policies of the same contract."""
