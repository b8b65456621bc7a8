"""Training functions for bare processes. Imports no more than it needs: each process does."""

import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss

from raysched.runtime import loop

SAMPLES = 130  # no batch size divides it


def deal_and_train(zero_grad_first=True):
    """Train a linear model: the parameters after each epoch, and what was dealt in it."""
    torch.manual_seed(0)
    samples = torch.randn(SAMPLES, 4, dtype=torch.float64)
    targets = samples.sum(1, keepdim=True)
    net = torch.nn.Linear(4, 1, dtype=torch.float64)
    model = loop.prepare(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    epochs = []
    for _ in loop.epochs(model, optimizer):
        dealt = []
        for indices, weight in loop.batches(SAMPLES):
            if zero_grad_first:
                optimizer.zero_grad()
            loss = weight * mse_loss(model(samples[indices]), targets[indices])
            loss.backward()
            optimizer.step()
            if not zero_grad_first:
                optimizer.zero_grad()
            dealt += indices.tolist() if weight else []
        epochs.append((torch.cat([p.detach().flatten() for p in net.parameters()]), dealt))
    return epochs


def deal():
    """How many samples came at a time, by epoch."""
    return [[len(indices) for indices, _ in loop.batches(SAMPLES)] for _ in loop.epochs()]


def share_batches(samples, sample_s):
    """This worker's samples of a whole batch and the median seconds of a step, by epoch. A sample
    takes it `sample_s[rank]`, asleep."""
    model = loop.prepare(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seen = []
    for _ in loop.epochs(model, optimizer):
        steps_s, began_s = [], time.perf_counter()
        for indices, weight in loop.batches(samples):
            time.sleep(len(indices) * sample_s[dist.get_rank()])
            optimizer.zero_grad()
            (weight * model(torch.zeros(len(indices), 4)).square().mean()).backward()
            optimizer.step()
            now_s = time.perf_counter()
            steps_s.append(now_s - began_s)
            began_s = now_s
        seen.append((len(indices), statistics.median(steps_s)))
    return seen
