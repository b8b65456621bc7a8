"""Jobs with parameter servers: asynchronous training, as paper 002 §III describes it.

The parameters are divided evenly among servers (`server`, `shards`). A worker takes a chunk of the
data, and for each mini-batch of it computes gradients, pushes to each server its share, and goes on
with the parameters that come back (`loop`, `worker`); nobody waits for another. When all chunks of
an epoch are trained (`chunks`), the coordinator has the servers save what they hold
(`checkpoints`), asks the scheduler (`seat`), and changes the numbers of workers and of servers:
those who stay train on (`coordinator`, `roles`). `protocol` is what they say to each other.
"""
