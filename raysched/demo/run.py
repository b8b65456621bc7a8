"""The demo, from nothing to a summary and a picture, and back to nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

import raysched
from policies import registry as policy_registry
from raysched import api
from raysched.demo import digits
from raysched.demo.live import Display
from raysched.demo.workload import BATCH_SIZE, FULL, INTERVAL_S, QUICK, SAMPLES_PER_S, Day, DemoJob
from raysched.events import InferenceConfigured
from raysched.history import History
from raysched.journal import Journal
from raysched.runtime import device_time, link
from raysched.runtime.local import LocalCluster, free_port
from raysched.summary import summarise
from serve_inference.deployment import SERVE_ENVIRONMENT, Deployed, InferencePool, deploy
from serve_inference.digits import DigitClassifier, digits_pool, train_model, unseen_images
from serve_inference.lender import ServeLender
from serve_inference.load import DayCurve, LoadGenerator
from serve_inference.load import summarise as summarise_load

DEVICE_S = 1 / 6
"""A request holds a replica's simulated GPUs for this long: a server of two carries 12 a second."""

POLL_S = 0.5
ENDING_S = 20.0
AFTER_DAY_S = 90.0
"""Jobs may take this much longer than the day; then the demo gives up and says so."""


def run(
    policy: str, out: Path, *, seed: int = 1, quick: bool = False, quiet: bool = False
) -> dict[str, Any]:
    """Run the day under `policy`; the summary, which is also written to `out` with the journal
    and the picture. Ends every process that it started, however it ends."""
    began_s = time.monotonic()
    out = out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("journal.*"):
        old.unlink()
    day = QUICK if quick else FULL
    with _interruptible(), Display(quiet=quiet) as display, PeakMemory() as memory:
        load = _live_day(policy, day, out, seed, display)
    journal = Journal(out / "journal.db", must_exist=True)
    history = History(journal.rows())
    journal.close()
    from raysched.demo.picture import draw  # after the run: matplotlib is slow to import

    summary = _summary(history, day, load, memory, time.monotonic() - began_s)
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    if history.jobs:
        draw(history, summary, out / "gpus.png")
    display.say(_told(summary, out))
    return summary


def _live_day(policy: str, day: Day, out: Path, seed: int, display: Display) -> LoadGenerator:
    """Bring everything up, let the day pass, take everything down; the load that was sent."""
    environment = {**SERVE_ENVIRONMENT, device_time.VARIABLE: str(SAMPLES_PER_S)}
    display.say("starting a Ray cluster of 2 training and 2 inference servers, 4 GPUs each ...")
    with ExitStack() as stack:
        stack.enter_context(LocalCluster(environment=environment))
        _connect(policy, out, display)
        stack.callback(api.stop)
        pool = digits_pool(DEVICE_S, http_port=free_port())
        deployed = deploy(DigitClassifier, pool, train_model(), DEVICE_S)
        _configure(pool, deployed)
        display.say(f"serving digits at {pool.url}: {deployed.replicas} replicas")
        load = _load(pool, day, seed)
        load.start()
        stack.callback(load.stop)  # however the day ends
        checkpoints = out / "checkpoints"
        stack.callback(shutil.rmtree, checkpoints, ignore_errors=True)
        arrivals = _submit_over_time(day, checkpoints)
        stack.callback(_end_jobs, arrivals)
        _watch_day(day, arrivals, load, display)
        load.stop()
        api.journal_path()  # folds the log into the file
    return load


def _connect(policy: str, out: Path, display: Display) -> None:
    parameters: dict[str, Any] = {}
    known = policy_registry.describe(policy)["parameters"]
    if known.get("interval_s") is not None:
        parameters["interval_s"] = INTERVAL_S
        display.say(f"{policy}: interval {known['interval_s']:g} s, scaled to {INTERVAL_S:g} s")
    connection = api.connect(policy, journal=out / "journal.db", policy_parameters=parameters)
    display.say(
        f"scheduler {connection.pid}: policy {connection.policy}, loaning {connection.loaning}; "
        f"a simulated GPU trains {SAMPLES_PER_S:g} samples/s and serves one request in "
        f"{1000 * DEVICE_S:.0f} ms"
    )


def _configure(pool: InferencePool, deployed: Deployed) -> None:
    event = InferenceConfigured(
        at_s=0.0,
        deployment=f"{pool.app}/{pool.deployment}",
        replicas_per_server=pool.replicas_per_server,
        server_rps=pool.server_rps,
        refill_s=deployed.refill_s,
        min_servers=pool.min_servers,
        grace_s=pool.grace_s,
    )
    link.call("configure_inference", event, ServeLender(pool))


def _load(pool: InferencePool, day: Day, seed: int) -> LoadGenerator:
    """The day's traffic, which stays at its evening level until the last job is done."""
    curve = DayCurve(day.low_rps, day.high_rps, day.day_s)

    def rate(at_s: float) -> float:
        return curve(min(at_s, day.day_s))

    return LoadGenerator(pool.url, rate, day.day_s + AFTER_DAY_S, unseen_images(), seed=seed)


def _submit_over_time(day: Day, checkpoints: Path) -> list[_Arrival]:
    data = digits.load_digits()
    arrivals = [_Arrival(job, data, checkpoints) for job in day.jobs]
    for arrival in arrivals:
        arrival.timer.start()
    return arrivals


def _end_jobs(arrivals: list[_Arrival]) -> None:
    """Where the day was cut short: no job may be inside Ray when Ray is shut down."""
    for arrival in arrivals:
        arrival.timer.cancel()
    for job in api.status()["jobs"]:
        if job["phase"] in ("queued", "starting", "running", "leaving"):
            api.cancel(job["job"])
    give_up_s = time.monotonic() + ENDING_S
    while any(a.handle and not a.handle.done() for a in arrivals) and time.monotonic() < give_up_s:
        time.sleep(0.1)


class _Arrival:
    """A job that comes when its time has come."""

    def __init__(self, job: DemoJob, data: digits.Data, checkpoints: Path) -> None:
        self._job, self._data, self._checkpoints = job, data, checkpoints
        self.handle: api.JobHandle | None = None
        self.timer = threading.Timer(job.arrives_s, self._arrive)
        self.timer.daemon = True

    @property
    def done(self) -> bool:
        """Whether it came and went."""
        return self.handle is not None and self.handle.done()

    def _arrive(self) -> None:
        job = self._job
        trainer = raysched.TorchTrainer(
            digits.train,
            train_loop_config={"data": self._data, "passes": job.passes},
            name=job.name,
            epochs=job.epochs,
            workers=job.workers,
            gpus_per_worker=job.gpus_per_worker,
            batch_size=BATCH_SIZE * job.gpus_per_worker,
            expected=job.expected_s,
            checkpoint=self._checkpoints,
        )
        self.handle = raysched.submit(trainer)


def _watch_day(day: Day, arrivals: list[_Arrival], load: LoadGenerator, display: Display) -> None:
    """Until the day and all jobs are over."""
    give_up_s = time.monotonic() + day.day_s + AFTER_DAY_S
    while not all(arrival.done for arrival in arrivals) or load.view().at_s < day.day_s:
        if time.monotonic() > give_up_s:
            display.say("some jobs did not end in time")
            return
        display.show(api.status(), load.view())
        time.sleep(POLL_S)
    display.show(api.status(), load.view())


def _summary(
    history: History, day: Day, load: LoadGenerator, memory: PeakMemory, wall_s: float
) -> dict[str, Any]:
    requests = summarise_load(load.records)
    latencies = {"p50": requests.p50_ms, "p99": requests.p99_ms}
    return {
        **summarise(history),
        "jobs_planned": len(day.jobs),
        "simulated_gpus": {"samples_per_s": SAMPLES_PER_S, "request_s": round(DEVICE_S, 4)},
        "requests_sent": requests.sent,
        "requests_failed": requests.failed,
        "requests_wrong": requests.wrong,
        **{
            f"latency_{name}_ms": None if ms is None else round(ms, 1)
            for name, ms in latencies.items()
        },
        "wall_s": round(wall_s, 1),
        "peak_rss_mib": memory.peak_mib,
    }


def _told(summary: dict[str, Any], out: Path) -> str:
    lines = [f"  {name:<18} {value}" for name, value in summary.items()]
    return "\n".join([*lines, f"summary, journal and picture (gpus.png) are in {out}"])


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does: everything that was started is taken down."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class PeakMemory:
    """The largest resident memory of this process and all it started, in MiB.

    Pages that several processes share are shared out among them (PSS), not counted for each.
    """

    def __init__(self, every_s: float = 5.0) -> None:
        self.peak_mib = 0
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process(os.getpid())
        while not self._over.wait(self._every_s):
            total = 0
            for process in [me, *me.children(recursive=True)]:
                try:
                    total += process.memory_full_info().pss
                except psutil.Error:  # it ended meanwhile
                    continue
            self.peak_mib = max(self.peak_mib, total >> 20)
