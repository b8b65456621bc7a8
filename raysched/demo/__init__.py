"""A day of a small cluster in a few minutes: real processes, real training, real requests."""
