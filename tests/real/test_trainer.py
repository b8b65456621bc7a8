"""The trainer on real Ray with real torch, through every change of workers."""

import os
import signal
import tempfile
import threading
import time

import pytest
import ray

from raysched.jobs import InvalidJob
from raysched.runtime.assignment import NOTHING, ToProfile
from raysched.runtime.protocol import NAMESPACE
from tests.real.scripted_scheduler import ScriptedScheduler, in_the_schedulers_place, said

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]  # a cluster beside others is slow

EPOCHS = 6
PROFILES = ToProfile((16, 32), (2,), sizes=(1, 2), batch_sizes=(32, 64))
BATCH_SIZE = 32
SAMPLES = 130  # not divisible by the batch size, and a last batch of 2


@pytest.fixture(scope="module")
def scheduler(ray_cluster):
    with in_the_schedulers_place(ScriptedScheduler) as actor:
        yield actor


@pytest.fixture
def trainer(scheduler, tmp_path):
    from raysched.runtime.trainer import TorchTrainer

    def make(
        function,
        sizes,
        name,
        *,
        in_place=False,
        profiles=NOTHING,
        batches=None,
        every=None,
        max_local_batch=None,
        **config,
    ):
        ray.get(scheduler.script.remote(name, sizes, in_place, profiles, batches))
        return TorchTrainer(
            function,
            epochs=EPOCHS,
            workers=(1, 4),
            batch_size=(BATCH_SIZE, 4 * BATCH_SIZE),
            max_local_batch=max_local_batch,
            every=every,
            name=name,
            checkpoint=tmp_path,
            train_loop_config=config,
        )

    return make


def _train(config):
    import torch

    from raysched.runtime import loop

    torch.manual_seed(0)
    samples = torch.randn(SAMPLES, 16)
    targets = samples.sum(1, keepdim=True)
    net = torch.nn.Sequential(
        torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Dropout(0.0), torch.nn.Linear(64, 1)
    )
    model = loop.prepare(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in loop.epochs(model, optimizer):
        for step, (indices, weight) in enumerate(loop.batches(SAMPLES)):
            time.sleep(1.5 if (epoch, step) == config.get("slow_step") else config.get("step_s", 0))
            loss = weight * torch.nn.functional.mse_loss(model(samples[indices]), targets[indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch == config.get("slow_epoch"):
            time.sleep(0.5)  # for the boundary before to be registered
            _leave_pid(config["pids"])
            time.sleep(1.0)
            torch.distributed.barrier()
        if epoch == 2 and torch.distributed.get_rank() == 0:
            config.get("spoil", int)()
        if epoch == config.get("raise_in"):
            raise ZeroDivisionError("the user's own mistake")
        with torch.no_grad():
            loss = torch.nn.functional.mse_loss(net(samples), targets)
        loop.report(loss=float(loss), workers=torch.distributed.get_world_size())


def _leave_pid(directory):
    from ray.train import get_context

    path = os.path.join(directory, f"{get_context().get_world_rank()}")
    if not os.path.exists(path):
        with open(path, "w") as file:
            file.write(str(os.getpid()))


def _losses(scheduler, job):
    reports = [report for (report,) in said(scheduler, job, "boundary") if report.part == 1]
    assert [report.epoch for report in reports] == list(range(EPOCHS)), "an epoch lost or repeated"
    return [report.metrics["loss"] for report in reports]


@pytest.fixture(scope="module")
def unbroken_losses(scheduler, tmp_path_factory):
    """Losses of a run that stayed on one worker."""
    from raysched.runtime.trainer import TorchTrainer

    ray.get(scheduler.script.remote("unbroken", {0: 1}))
    run = TorchTrainer(
        _train,
        epochs=EPOCHS,
        workers=(1, 4),
        batch_size=BATCH_SIZE,
        name="unbroken",
        checkpoint=tmp_path_factory.mktemp("unbroken"),
        train_loop_config={},
    )
    run.fit()
    return _losses(scheduler, run.job)


def test_each_epoch_once_through_resizes_and_preemption(scheduler, trainer, unbroken_losses):
    run = trainer(_train, {0: 1, 1: 2, 3: 1, 4: 0}, "resized")
    result = run.fit()
    assert _losses(scheduler, run.job) == pytest.approx(unbroken_losses, rel=1e-4)
    assert result.metrics["epoch"] == EPOCHS - 1
    assert result.metrics["loss"] == pytest.approx(unbroken_losses[-1], rel=1e-4)
    granted = [workers for _, workers in said(scheduler, run.job, "granted")]
    assert granted == [1, 2, 1, 2]
    assert not any(lost for _, lost, _ in said(scheduler, run.job, "stopped"))
    assert said(scheduler, run.job, "ended") == [("finished", "")]


def test_workers_join_and_leave_those_that_train(scheduler, trainer, unbroken_losses):
    run = trainer(_train, {0: 1, 1: 2, 2: 4, 3: 1, 4: 3, 5: 2}, "in place", in_place=True)
    result = run.fit()
    assert _losses(scheduler, run.job) == pytest.approx(unbroken_losses, rel=1e-4)
    assert result.metrics["loss"] == pytest.approx(unbroken_losses[-1], rel=1e-4)
    assert len(said(scheduler, run.job, "granted")) == 1, "it was started anew"
    assert [grant for (grant,) in said(scheduler, run.job, "resized")] == [2, 3, 4, 5, 6]
    reports = [report for (report,) in said(scheduler, run.job, "boundary")]
    assert [report.metrics["workers"] for report in reports] == [1, 2, 4, 1, 3, 2]


def test_workers_that_profile_train_as_if_they_had_not(scheduler, trainer, unbroken_losses):
    run = trainer(_train, {0: 2, 2: 1}, "profiled", profiles=PROFILES)
    run.fit()
    assert _losses(scheduler, run.job) == pytest.approx(unbroken_losses, rel=1e-4)
    ((grant, profile, all_reduce_s),) = said(scheduler, run.job, "profiled")
    assert (grant, profile.samples, sorted(profile.step_s)) == (1, SAMPLES, [16, 32])
    assert profile.weights_bytes == 4 * (16 * 64 + 64 + 64 + 1)
    assert {batch: sorted(of) for batch, of in profile.together_s.items()} == {
        32: [1, 2],
        64: [1, 2],
    }
    assert all(seconds > 0 for seconds in [*profile.step_s.values(), *all_reduce_s[2].values()])


def _parts(scheduler, job, epoch):
    """What of an epoch was done at its safe points."""
    reports = [report for (report,) in said(scheduler, job, "boundary")]
    return [report.part for report in reports if report.epoch == epoch and report.part < 1]


def test_workers_join_and_leave_within_an_epoch(scheduler, trainer, unbroken_losses):
    sizes = {0: 2, 1.3: 1, 2.3: 3}
    run = trainer(_train, sizes, "within", in_place=True, every="0.05s", step_s=0.1)
    result = run.fit()
    assert _losses(scheduler, run.job) == pytest.approx(unbroken_losses, rel=1e-4)
    assert result.metrics["loss"] == pytest.approx(unbroken_losses[-1], rel=1e-4)
    assert len(said(scheduler, run.job, "granted")) == 1, "it was started anew"
    assert [grant for (grant,) in said(scheduler, run.job, "resized")] == [2, 3]
    assert _parts(scheduler, run.job, 2) == [n * BATCH_SIZE / SAMPLES for n in (1, 2, 3, 4)]


def test_workers_that_are_ended_within_an_epoch_redo_what_came_after_its_safe_point(
    scheduler, trainer, unbroken_losses
):
    sizes = {0: 1, 1.3: 2, 3.3: "cut"}
    run = trainer(_train, sizes, "cut short", every="0.05s", step_s=0.1, slow_step=(3, 2))
    run.fit()
    assert _losses(scheduler, run.job) == pytest.approx(unbroken_losses, rel=1e-4)
    assert [workers for _, workers in said(scheduler, run.job, "granted")] == [1, 2, 2]
    assert not any(lost for _, lost, _ in said(scheduler, run.job, "stopped"))
    for epoch in (1, 3):
        parts = _parts(scheduler, run.job, epoch)
        assert parts == sorted(set(parts)), "a part was trained twice"


def _for_ray_train_alone(config):
    """As in Ray Train's own guide; it also leaves a line for each epoch that a rank begins."""
    import tempfile

    import ray.train.torch
    import torch

    torch.manual_seed(0)
    samples = torch.randn(SAMPLES, 16)
    model = ray.train.torch.prepare_model(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    bare = getattr(model, "module", model)
    context, first = ray.train.get_context(), 0
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as directory:
            saved = torch.load(os.path.join(directory, "model.pt"))
        bare.load_state_dict(saved["model"])
        first = saved["epoch"] + 1
    for epoch in range(first, EPOCHS):
        with open(config["lines"], "a") as lines:
            lines.write(f"{epoch} {context.get_world_rank()} of {context.get_world_size()}\n")
        loss = model(samples).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ray.train.report({"halfway": True})  # no checkpoint: no boundary
        with tempfile.TemporaryDirectory() as directory:
            checkpoint = None
            if context.get_world_rank() == 0:
                torch.save(
                    {"model": bare.state_dict(), "epoch": epoch},
                    os.path.join(directory, "model.pt"),
                )
                checkpoint = ray.train.Checkpoint.from_directory(directory)
            metrics = {"loss": loss.item(), "epoch": epoch, "note": "any"}
            ray.train.report(metrics, checkpoint=checkpoint)


def test_a_function_for_ray_train_alone_is_resized_at_its_checkpoints(scheduler, trainer, tmp_path):
    lines = tmp_path / "lines"
    run = trainer(_for_ray_train_alone, {0: 1, 2: 2, 3: 1, 5: 0}, "alone", lines=str(lines))
    result = run.fit()
    sizes = [1, 1, 2, 1, 1, 2]  # parked before the last one
    assert sorted(lines.read_text().splitlines()) == [
        f"{epoch} {rank} of {size}" for epoch, size in enumerate(sizes) for rank in range(size)
    ]
    losses = _losses(scheduler, run.job)
    assert losses == sorted(losses, reverse=True)
    assert result.metrics["loss"] == losses[-1]
    assert (result.metrics["epoch"], result.metrics["note"]) == (EPOCHS - 1, "any")
    assert [grant for grant, _ in said(scheduler, run.job, "started")] == [1, 2, 3, 5]
    assert not any(lost for _, lost, _ in said(scheduler, run.job, "stopped"))


def _pairs():
    import torch

    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(SAMPLES, 16, generator=generator)
    return torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))


def test_a_model_is_trained_without_a_loop_or_a_number_of_workers(scheduler, tmp_path):
    import torch

    import raysched

    def layer():
        torch.manual_seed(0)
        return torch.nn.Linear(16, 1)

    ray.get(scheduler.script.remote("layer", {0: 1, 2: 2}))
    result = raysched.train(
        model=layer,
        data=_pairs,
        loss=torch.nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        epochs=EPOCHS,
        batch_size=10,
        deadline="1h",
        checkpoint=tmp_path,
    )
    spec = ray.get(scheduler.specs.remote("layer"))
    assert (spec.min_workers, spec.max_workers, spec.deadline_s) == (1, 10, 3600.0)
    assert result.checkpoint is not None
    assert result.metrics is not None
    with result.checkpoint.as_directory() as directory:
        saved = torch.load(os.path.join(directory, "state.pt"), weights_only=False)
    trained = layer()
    trained.load_state_dict(saved["state"][0])
    inputs, targets = _pairs().tensors
    assert torch.nn.functional.mse_loss(trained(inputs), targets) < result.metrics["loss"] < 1e-3
    assert result.metrics["workers"] == 2


def test_a_model_that_is_made_already_is_refused():
    import torch

    import raysched

    with pytest.raises(InvalidJob, match="model: is made on each worker; give a function"):
        raysched.train(
            model=torch.nn.Linear(1, 1),
            data=_pairs,
            loss=torch.nn.functional.mse_loss,
            optimizer=torch.optim.SGD,
            epochs=1,
            batch_size=1,
        )


def test_the_batch_size_changes_while_workers_stay_and_while_they_change(scheduler, trainer):
    """On one worker, and on several with their shares in parts, the same losses come out."""
    losses = {}
    batches = {1: 128, 3: 256, 5: 64}
    for name, sizes in (("one", {0: 1}), ("several", {0: 1, 2: 2, 3: 3, 4: 0})):
        run = trainer(
            _train, sizes, f"batches on {name}", in_place=True, batches=batches, max_local_batch=24
        )
        run.fit()
        losses[name] = _losses(scheduler, run.job)
        if name == "one":
            assert len(said(scheduler, run.job, "granted")) == 1, "it was started anew"
    assert losses["several"] == pytest.approx(losses["one"], rel=1e-4)


def test_a_worker_killed_in_mid_epoch_costs_that_epoch_only(
    scheduler, trainer, unbroken_losses, tmp_path
):
    run = trainer(_train, {0: 2}, "killed", slow_epoch=2, pids=str(tmp_path))
    victim = tmp_path / "1"
    killer = threading.Thread(target=_kill_when_known, args=(victim,))
    killer.start()
    run.fit()
    killer.join()
    assert _losses(scheduler, run.job) == pytest.approx(unbroken_losses, rel=1e-4)
    stops = said(scheduler, run.job, "stopped")
    assert [lost for _, lost, _ in stops] == [True, False], stops


def _kill_when_known(path, timeout_s=60):
    deadline_s = time.monotonic() + timeout_s
    while not (path.exists() and path.read_text()) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    os.kill(int(path.read_text()), signal.SIGKILL)


@pytest.mark.attack
@pytest.mark.long
def test_a_killed_controller_comes_back_and_loses_no_epoch(
    scheduler, trainer, unbroken_losses, tmp_path
):
    run = trainer(_train, {0: 1}, "headless", slow_epoch=3, pids=str(tmp_path))

    def kill():
        while not (tmp_path / "0").exists():
            time.sleep(0.05)
        controller = ray.get_actor(f"raysched-controller-{run.job}", namespace=NAMESPACE)
        ray.kill(controller, no_restart=False)

    killer = threading.Thread(target=kill)
    killer.start()
    run.fit()
    killer.join()
    assert _losses(scheduler, run.job) == pytest.approx(unbroken_losses, rel=1e-4)
    assert said(scheduler, run.job, "stopped")[0][1:] == (True, "its controller was restarted")


def test_what_the_training_function_raises_fails_the_job(scheduler, trainer):
    run = trainer(_train, {0: 2}, "mistaken", raise_in=1)
    with pytest.raises(Exception, match="the user's own mistake"):
        run.fit()
    ((outcome, error),) = said(scheduler, run.job, "ended")
    assert outcome == "failed"
    assert "ZeroDivisionError: the user's own mistake" in error
    assert "raise ZeroDivisionError" in error, "the traceback shows the line"


def _put_a_file_in_the_place_of_the_checkpoints():
    import shutil

    from ray.train import get_context

    place = os.path.dirname(get_context().get_storage().experiment_fs_path)
    shutil.rmtree(place)
    with open(place, "w"):
        pass


def _fill_the_disk():
    """As far as this process can see: no file may grow beyond this."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


@pytest.mark.parametrize(
    ("spoil", "place"),
    [
        (_put_a_file_in_the_place_of_the_checkpoints, "{checkpoints}/spoilt"),
        (_fill_the_disk, "{temporary}/raysched-"),
    ],
    ids=["a file", "a full disk"],
)
def test_a_checkpoint_that_cannot_be_written_fails_the_job(
    scheduler, trainer, tmp_path, spoil, place
):
    run = trainer(_train, {0: 2}, "spoilt", spoil=spoil)
    place = place.format(checkpoints=tmp_path, temporary=tempfile.gettempdir())
    with pytest.raises(Exception, match=place):  # by a worker, or the controller's own register
        run.fit()
    ((outcome, error),) = said(scheduler, run.job, "ended")
    assert outcome == "failed"
    assert place in error
    reports = [report for (report,) in said(scheduler, run.job, "boundary")]
    assert [report.epoch for report in reports] in ([0, 1], [0, 1, 2]), "it was tried again"


def test_a_checkpoint_that_is_a_file_is_refused(scheduler, tmp_path):
    from raysched.runtime.trainer import TorchTrainer

    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InvalidJob, match=r"checkpoint: .* is a file; name a directory"):
        TorchTrainer(_train, epochs=1, workers=1, batch_size=1, checkpoint=file)
