"""Build the sdist, and the wheel from it; install the wheel in an empty environment and use it.

``make dist`` runs this. What is left in ``dist/`` is what would be uploaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST, WORK = ROOT / "dist", ROOT / "build" / "dist"
LARGEST_WHEEL = 1_000_000  # bytes; code and templates alone, no data and no pictures

BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"

CORE = """
import torch, eastward as ew
logits = torch.randn(64, 3, requires_grad=True)
ew.EASTLoss("f1_macro")(logits, torch.arange(64) % 3).backward()
assert logits.grad.abs().sum() > 0
try:
    ew.EASTClassifier
except ModuleNotFoundError as error:
    assert "pip install 'eastward[tabular]'" in str(error), error
else:
    raise AssertionError("the environment is not empty")
"""


def run(*words: object, where: Path = WORK) -> str:
    """Run a command somewhere outside the sources, so that nothing is found there by chance."""
    words = tuple(map(str, words))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(  # noqa: S603 - ours
        words, check=False, cwd=where, env=environment, text=True, capture_output=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}\n{done.stderr}")
    return done.stdout.strip()


def built() -> tuple[Path, Path]:
    """Build the sdist from the checkout, and the wheel from the unpacked sdist."""
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.rmtree(WORK, ignore_errors=True)
    DIST.mkdir()
    WORK.mkdir(parents=True)
    sdist = (
        DIST / run(sys.executable, "-c", BUILD, "build_sdist", DIST, where=ROOT).splitlines()[-1]
    )
    with tarfile.open(sdist) as archive:
        archive.extractall(WORK, filter="data")
    unpacked = WORK / sdist.name.removesuffix(".tar.gz")
    wheel = (
        DIST
        / run(sys.executable, "-c", BUILD, "build_wheel", DIST, where=unpacked).splitlines()[-1]
    )
    return sdist, wheel


def check_contents(wheel: Path) -> None:
    """The wheel holds every file of the package, its licence, and nothing else; it is small."""
    source = ROOT / "src"
    wanted = {
        str(path.relative_to(source))
        for path in (source / "eastward").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    if wanted != found:
        sys.exit(
            f"missing in the wheel: {sorted(wanted - found)}; not ours: {sorted(found - wanted)}"
        )
    size = wheel.stat().st_size
    if size > LARGEST_WHEEL:
        sys.exit(f"the wheel has {size:,} bytes, more than {LARGEST_WHEEL:,}")


def use(wheel: Path) -> None:
    """Install the wheel in an empty environment: the losses first, then the command line."""
    environment = WORK / "environment"
    venv.create(environment, with_pip=True)
    python, command = environment / "bin/python", environment / "bin/eastward"
    install = (python, "-m", "pip", "install", "-qq", "--no-compile", "--disable-pip-version-check")
    install = (*install, "-c", ROOT / "constraints.txt")
    run(*install, wheel)
    run(python, "-c", CORE)
    run(*install, f"{wheel}[tabular]")
    run(command, "datasets")
    rows = "\n".join(f"{i % 7},{(i * 5) % 11},{'yes' if i % 4 == 0 else 'no'}" for i in range(80))
    (WORK / "rows.csv").write_text(f"a,b,label\n{rows}\n")
    quick = ("--method", "logistic_regression_tuned", "--out", "model")
    run(command, "train", "rows.csv", "--target", "label", *quick)
    run(command, "predict", "model", "rows.csv", "-o", "labels.csv")
    labels = (WORK / "labels.csv").read_text().splitlines()
    if len(labels) != 81 or not (WORK / "model/report.html").exists():
        sys.exit(f"train and predict left {len(labels)} lines, 81 expected")


def main() -> None:
    """Build, check, install, use; say what there is."""
    sdist, wheel = built()
    check_contents(wheel)
    if "--no-install" not in sys.argv:
        use(wheel)
    for file in (sdist, wheel):
        print(f"{file.relative_to(ROOT)}  {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
