"""Jobs that torchrun starts: plain DDP, checkpointed and sharded networks, and a worker that dies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from job import Checkpointed
from scenarios import SCENARIOS, batch, gradient, make_loss, network

pytestmark = pytest.mark.distributed
HERE = Path(__file__).parent


def torchrun(scenario: str, folder: Path, *options: str) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *options),
        *(str(HERE / "job.py"), scenario, str(folder)),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "EASTWARD_CHECKPOINT_SECONDS": "0"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("plain")
    done = torchrun("plain", folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return torch.load(folder / "plain.pt")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "checkpointed", "exact_backward", "fsdp"])
def test_the_gradient_is_that_of_one_process_with_all_rows(plain, kind):
    scenario = SCENARIOS["sample weights"]
    inputs, targets, weights = batch(3, scenario, 2, 0)
    model = Checkpointed() if kind == "checkpointed" else network(3)
    make_loss("f1_macro", scenario)(model(inputs), targets, weights).backward()
    torch.testing.assert_close(plain[kind], gradient(model), rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_after_a_killed_worker_torchrun_goes_on_from_the_checkpoint(tmp_path):
    done = torchrun("elastic", tmp_path, "--max-restarts=1")
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [torch.load(tmp_path / f"elastic-{rank}.pt") for rank in range(2)]
    assert [found["restarts"] for found in ranks] == [1, 1]
    # what had been trained before the death was not trained again ...
    assert ranks[0]["epochs"][0][0] == "aligned"
    # ... nothing is missing, and both processes hold the same model
    stages = [(record["stage"], record["epoch"]) for record in ranks[0]["history"]]
    assert stages == [(stage, k) for stage in ("cross-entropy", "aligned") for k in range(1, 7)]
    for name, value in ranks[0]["state"].items():
        assert torch.equal(value, ranks[1]["state"][name])
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["training.ckpt"]
