"""What workers and parameter servers compute, without a cluster."""

import itertools
import pickle
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from raysched.jobs import InvalidJob
from raysched.runtime.parameter_servers import checkpoints
from raysched.runtime.parameter_servers.chunks import ChunkBook
from raysched.runtime.parameter_servers.loop import ELEMENTWISE, layout_of
from raysched.runtime.parameter_servers.protocol import Saved
from raysched.runtime.parameter_servers.server import ParameterServer
from raysched.runtime.parameter_servers.shards import cut, even_ranges, fresh
from raysched.runtime.parameter_servers.trainer import ParameterServerTrainer

WORKERS = 4


@given(
    chunks=st.integers(0, 12),
    moves=st.lists(st.tuples(st.sampled_from(["train", "die", "say again"]), st.integers(0, 3))),
)
def test_each_chunk_is_finished_once_whoever_dies(chunks, moves):
    """A worker takes, and finishes at its next move; one that died comes back as another one."""
    book, deaths = ChunkBook(chunks), 0
    busy: dict[int, int] = {}
    finished: Counter[int] = Counter()
    last: dict[int, int] = {}

    def train(worker):
        if worker in busy:
            last[worker] = busy.pop(worker)
            book.finish(worker, last[worker])
            finished[last[worker]] += 1
        chunk = book.take(worker)
        assert chunk not in busy.values() and chunk not in finished
        assert chunk == book.take(worker), "asked again, it is the same"
        if chunk is not None:
            busy[worker] = chunk

    for move, number in moves:
        worker = number + WORKERS * deaths
        if move == "train":
            train(worker)
        elif move == "say again" and worker in last:
            book.finish(worker, last[worker])
            assert worker not in busy or book.take(worker) == busy[worker]
        elif move == "die":
            book.drop(worker)
            busy.pop(worker, None)
            if worker in last:
                book.finish(worker, last[worker])  # what it had said comes late
            deaths += number == 0
        assert book.over == (len(finished) == chunks)
    for _ in range(2 * chunks):  # those who are left train all that is left
        for worker in [*busy, -1]:
            train(worker)
    assert book.over
    assert finished == Counter(range(chunks))


@given(st.integers(0, 1000), st.integers(1, 20))
def test_servers_hold_even_shares_of_everything(numbers, servers):
    ranges = even_ranges(numbers, servers)
    assert ranges[0][0] == 0 and ranges[-1][1] == numbers
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(ranges))
    sizes = [end - start for start, end in ranges]
    assert max(sizes) - min(sizes) <= 1


def _model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 1)
    )


def _in_groups(model, kind):
    """An optimizer with two groups, neither in the order of the model."""
    weights = [p for p in model.parameters() if p.ndim > 1]
    biases = [p for p in model.parameters() if p.ndim == 1]
    return kind([{"params": biases, "lr": 0.02}, {"params": weights, "weight_decay": 0.01}], lr=0.1)


def _row(optimizer):
    parameters = [p.detach() for group in optimizer.param_groups for p in group["params"]]
    return torch.cat([p.reshape(-1) for p in parameters]).numpy().copy()


class _Servers:
    """Some servers, without Ray, and a reference: torch's own optimizer over the whole model."""

    def __init__(self, kind, folder):
        self.folder = folder
        self.model = _model()
        self.optimizer = _in_groups(self.model, kind)
        self.layout = layout_of(self.model, self.optimizer)
        self.loaded = 0
        self.servers = []

    def start(self, count):
        self._load(count, "load_first", _row(self.optimizer))

    def resize(self, count):
        self._load(count, "load", *(server.export() for server in self.servers))

    def restore(self, count):
        """Every server is lost, and those that come begin at what is saved."""
        saved = Saved(0, 0, {}, checkpoints.path_of(str(self.folder), 0))
        carried = pickle.dumps(({}, [*self.layout.settings]))
        exported = [server.export() for server in self.servers]
        self.servers[0].save(saved, self.layout, carried, *exported)
        assert checkpoints.latest(str(self.folder)) == saved
        self._load(count, "load_saved", saved)

    def push(self, seed):
        random = torch.Generator().manual_seed(seed)
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.randn(parameter.shape, generator=random)
        gradient = np.concatenate(
            [p.grad.reshape(-1).numpy() for g in self.optimizer.param_groups for p in g["params"]]
        )
        self.optimizer.step()
        settings = [{"lr": group["lr"]} for group in self.optimizer.param_groups]
        answers = [
            server.push(self.loaded, gradient[a:b], settings)
            for server, (a, b) in zip(self.servers, self.ranges, strict=True)
        ]
        np.testing.assert_allclose(np.concatenate(answers), _row(self.optimizer), rtol=1e-5)

    def _load(self, count, method, *source):
        self.ranges = even_ranges(self.layout.numbers, count)
        self.servers = [ParameterServer() for _ in range(count)]
        self.loaded += 1
        for server, held in zip(self.servers, self.ranges, strict=True):
            getattr(server, method)(self.loaded, self.layout, held, *source)


@pytest.mark.parametrize("kind", ELEMENTWISE)
def test_servers_step_as_one_optimizer_would_however_many_they_are(kind, tmp_path):
    job = _Servers(kind, tmp_path)
    job.start(2)
    job.push(1)
    job.resize(5)
    job.push(2)
    job.optimizer.param_groups[0]["lr"] *= 0.5
    job.push(3)
    job.restore(3)
    job.push(4)
    job.resize(1)
    job.push(5)


def test_a_gradient_of_before_the_last_loading_is_dropped(tmp_path):
    job = _Servers(torch.optim.SGD, tmp_path)
    job.start(1)
    before = job.servers[0].pull(1)
    assert job.servers[0].push(0, np.ones_like(before), None) is None
    assert job.servers[0].pull(0) is None
    np.testing.assert_array_equal(job.servers[0].pull(1), before)


def test_a_checkpoint_holds_whole_state_dicts(tmp_path):
    job = _Servers(torch.optim.Adam, tmp_path)
    job.start(3)
    job.push(1)
    rest = {k: v for k, v in job.model.state_dict().items() if k not in job.layout.names}
    carried = pickle.dumps((rest, [*job.layout.settings]))
    saved = Saved(4, 7, {"loss": 0.5}, checkpoints.path_of(str(tmp_path), 4))
    job.servers[0].save(saved, job.layout, carried, *(server.export() for server in job.servers))
    state = torch.load(f"{saved.path}/state.pt", weights_only=False)
    model, optimizer = _model(), _in_groups(_model(), torch.optim.Adam)
    model.load_state_dict(state["state"][0])
    optimizer.load_state_dict(state["state"][1])
    assert (state["epoch"], state["seed"]) == (4, 7)
    for name, value in job.model.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value)
    moments = job.optimizer.state_dict()["state"]
    for number, kept in optimizer.state_dict()["state"].items():
        torch.testing.assert_close(kept["exp_avg"], moments[number]["exp_avg"])
    rest_again, settings = pickle.loads(checkpoints.read_carried(saved, job.layout))
    torch.testing.assert_close(rest_again, rest)
    assert settings == [*job.layout.settings]


def test_two_checkpoints_are_kept_and_one_that_is_not_complete_does_not_count(tmp_path):
    job = _Servers(torch.optim.SGD, tmp_path)
    job.start(1)
    carried = pickle.dumps(({}, [*job.layout.settings]))
    for epoch in range(4):
        saved = Saved(epoch, 0, {}, checkpoints.path_of(str(tmp_path), epoch))
        job.servers[0].save(saved, job.layout, carried, job.servers[0].export())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint-000002",
        "checkpoint-000003",
    ]
    (tmp_path / "checkpoint-000003" / "boundary.json").unlink()
    last = checkpoints.latest(str(tmp_path))
    assert last is not None and last.epoch == 2
    assert checkpoints.latest(str(tmp_path / "nowhere")) is None


@given(st.data())
def test_what_is_cut_and_joined_again_is_the_same(data):
    model = _model()
    layout = layout_of(model, _in_groups(model, torch.optim.Adam))
    row = np.arange(layout.numbers, dtype=np.float32)
    held = [fresh(row, layout, part) for part in even_ranges(layout.numbers, 4)]
    start = data.draw(st.integers(0, layout.numbers))
    end = data.draw(st.integers(start, layout.numbers))
    pieces = cut([piece for part in held for piece in part], (start, end))
    assert [n for piece in pieces for n in piece.values.tolist()] == list(range(start, end))
    for piece in pieces:
        first, last = layout.group_ranges[piece.group]
        assert first <= piece.start and piece.end <= last


def test_an_optimizer_that_looks_at_whole_tensors_is_refused():
    model = _model()
    with pytest.raises(InvalidJob, match="optimizer: LBFGS cannot be divided among servers; use"):
        layout_of(model, torch.optim.LBFGS(model.parameters()))
    with pytest.raises(InvalidJob, match="optimizer: trains parameters that the model does not"):
        layout_of(model, torch.optim.SGD(_model().parameters()))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"chunks": 3}, "chunks: is 3; use 4 or more"),
        ({"workers_per_parameter_server": 0}, "workers_per_parameter_server: is 0; use 1 or more"),
        ({"epochs": 0}, "epochs: is 0; use 1 or more"),
        ({"checkpoint": __file__}, "checkpoint: .* is a file; name a directory"),
    ],
)
def test_bad_input_names_the_field_and_the_mend(wrong, message):
    with pytest.raises(InvalidJob, match=message):
        ParameterServerTrainer(print, **{"epochs": 1, "workers": (1, 4), "batch_size": 2} | wrong)


def test_a_trainer_is_described_as_a_job():
    trainer = ParameterServerTrainer(
        print, epochs=3, workers=(1, 8), batch_size=4, workers_per_parameter_server=2
    )
    assert (trainer.spec.max_workers, trainer.spec.workers_per_parameter_server) == (8, 2)
    assert trainer.chunks == 32
