"""The GPU kernels, in a process where Triton interprets them on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_triton_kernels_compute_what_the_definition_computes():
    pytest.importorskip("triton", reason="Triton is not installed")
    checks = Path(__file__).with_name("triton_interpreted.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(checks)]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stdout[-3000:]
    assert " passed" in run.stdout
