"""`align` with weights that are split between two processes (FSDP 2): the result is that of one process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from sharded_job import HEAD_ONLY, KINDS_TO_SHARD, OPTIONS
from small_networks import KINDS, three_classes

import eastward as ew

pytestmark = [pytest.mark.slow, pytest.mark.distributed]
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> list[dict]:
    """What both processes found."""
    folder = tmp_path_factory.mktemp("sharded")
    command = [
        sys.executable,
        *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
        *(str(HERE / "sharded_job.py"), str(folder)),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS_TO_SHARD)
def test_every_stage_ends_as_in_one_process(job, kind):
    network, train, valid, own = KINDS[kind]()
    one = ew.align(network, train, valid, **{**OPTIONS, **own})
    for found in (rank[kind] for rank in job):
        assert_same(found["weights"], one.model.state_dict())
        assert found["report"]["kept"] == "network"
        values = [stage["value"] for stage in found["report"]["stages"]]
        assert values == pytest.approx([stage["value"] for stage in one.report["stages"]])


@pytest.mark.parametrize("way", ["in place", "wrapped"])
def test_the_result_is_loaded_into_the_model_that_was_given(job, way):
    network, train, valid, _ = three_classes()
    one = ew.align(network, train, valid, **HEAD_ONLY)
    assert_same(job[0][way], one.model.state_dict())


def test_a_network_that_is_sharded_already_is_aligned_as_in_one_process(job):
    network, train, valid, _ = three_classes()
    one = ew.align(network, train, valid, stages=("network",), **OPTIONS)
    assert_same(job[1]["own"]["whole"], one.model.state_dict())


def test_a_killed_job_goes_on_to_the_same_bits(job):
    own = job[0]["own"]
    assert all(torch.equal(value, own["resumed"][name]) for name, value in own["whole"].items())


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("not in place", "inplace of align must be True for a sharded network"),
        ("no bias", "head of align must be a layer with a bias"),
        ("partly", "got 2.weight in one piece. Call fully_shard on the whole network last"),
        ("added", "Add the layer before you call fully_shard"),
    ],
)
def test_one_clear_sentence(job, case, sentence):
    assert sentence in job[0]["refused"][case]
