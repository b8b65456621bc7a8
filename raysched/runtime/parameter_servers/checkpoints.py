"""Checkpoints of epoch boundaries: a directory each, under that of the job's run.

`state.pt` is as that of a `raysched.TorchTrainer`: under `state`, the `state_dict` of the model, of
the optimizer and of whatever else is kept, whole, whatever the number of servers that held them.
`boundary.json` is written last: without it a checkpoint is not complete.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow.fs

from raysched.runtime.parameter_servers.protocol import Saved
from raysched.runtime.parameter_servers.shards import Layout, Piece, cut, settings_of

KEPT = 2
_STATE = "state.pt"
_BOUNDARY = "boundary.json"


def path_of(run: str, epoch: int) -> str:
    """The directory of an epoch's checkpoint. `run` is a directory or a URI."""
    return f"{run}/checkpoint-{epoch:06}"


def latest(run: str) -> Saved | None:
    """The last complete checkpoint of a run."""
    for path in reversed(_all(run)):
        files, at = pyarrow.fs.FileSystem.from_uri(f"{path}/{_BOUNDARY}")
        if files.get_file_info(at).type == pyarrow.fs.FileType.File:
            with files.open_input_stream(at) as stream:
                return Saved(**json.loads(stream.read()))
    return None


def write(saved: Saved, layout: Layout, carried: bytes, pieces: Sequence[Piece]) -> None:
    """Write a boundary's checkpoint, and remove those that are older than the one before it."""
    import torch

    files, at = pyarrow.fs.FileSystem.from_uri(saved.path)
    files.create_dir(at, recursive=True)
    with files.open_output_stream(f"{at}/{_STATE}") as stream:
        torch.save(_state(saved, layout, carried, pieces), stream)
    with files.open_output_stream(f"{at}/{_BOUNDARY}") as stream:
        stream.write(json.dumps(asdict(saved)).encode())
    for older in _all(saved.path.rpartition("/")[0])[:-KEPT]:
        older_files, older_at = pyarrow.fs.FileSystem.from_uri(older)
        older_files.delete_dir(older_at)


def read_pieces(saved: Saved, layout: Layout) -> tuple[Piece, ...]:
    """What the servers held at a boundary: a piece a parameter."""
    state = _read(saved)
    model, optimizer = state["state"][:2]
    pieces = []
    for at, (name, (start, _)) in enumerate(zip(layout.names, layout.ranges, strict=True)):
        of_parameter = optimizer["state"].get(at, {})
        counts = {what: float(of_parameter[what]) for what in state["counts"]}
        kept = {what: _row(of_parameter[what]) for what in of_parameter.keys() - counts}
        pieces.append(Piece(layout.groups[at], start, _row(model[name]), kept, counts))
    return tuple(pieces)


def read_carried(saved: Saved, layout: Layout) -> bytes:
    """What workers kept for themselves at a boundary."""
    model, optimizer, *extras = _read(saved)["state"]
    rest = {name: value for name, value in model.items() if name not in layout.names}
    return pickle.dumps((rest, settings_of(optimizer["param_groups"]), *extras))


def _state(saved: Saved, layout: Layout, carried: bytes, pieces: Sequence[Piece]) -> dict[str, Any]:
    """Everything by parameter, as torch has it."""
    import torch

    rest, groups, *extras = pickle.loads(carried)
    model = dict(rest)
    of_parameters = {}
    for at, (name, shape) in enumerate(zip(layout.names, layout.shapes, strict=True)):
        (piece,) = cut(pieces, layout.ranges[at])
        model[name] = torch.from_numpy(piece.values).reshape(shape)
        kept = {what: torch.from_numpy(row).reshape(shape) for what, row in piece.kept.items()}
        of_parameters[at] = kept | {k: torch.tensor(count) for k, count in piece.counts.items()}
    members = [np.flatnonzero(np.array(layout.groups) == g).tolist() for g in range(len(groups))]
    groups = [{**g, "params": of_g} for g, of_g in zip(groups, members, strict=True)]
    return {
        "epoch": saved.epoch,
        "seed": saved.seed,
        "state": [model, {"state": of_parameters, "param_groups": groups}, *extras],
        "counts": list(pieces[0].counts),
    }


def _read(saved: Saved) -> dict[str, Any]:
    import torch

    files, at = pyarrow.fs.FileSystem.from_uri(f"{saved.path}/{_STATE}")
    with files.open_input_file(at) as stream:
        state: dict[str, Any] = torch.load(stream, map_location="cpu", weights_only=False)
    return state


def _row(tensor: Any) -> Any:
    return tensor.numpy().reshape(-1)


def _all(run: str) -> list[str]:
    """The checkpoints of a run, complete or not, in the order of their epochs."""
    files, at = pyarrow.fs.FileSystem.from_uri(run)
    found = files.get_file_info(pyarrow.fs.FileSelector(at, allow_not_found=True))
    return sorted(f"{run}/{info.base_name}" for info in found)
