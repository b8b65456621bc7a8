"""The second body of the same engine: a cluster in virtual time."""
