"""The code on the pages runs unchanged, given the objects that the text mentions: a table, a network, a loader."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.multiprocessing
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import eastward as ew
from eastward.training.launch import end_process

ROOT = Path(__file__).parents[1]
CODE = re.compile(r"^( *)```python\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
# README and quickstart have tests of their own (test_documents.py).
PAGES = sorted({*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "guide").glob("*.md")})
PAGES = [
    page for page in PAGES if CODE.search(page.read_text("utf-8")) and page.stem != "quickstart"
]
# What cannot run here, by a word of the block, and why.
ELSEWHERE = {
    "predictor.fit": "AutoGluon wants an environment of its own",
    "parquet-folder": "two processes and a folder of files: tests/training, tests/distributed",
    "load_model": "a model folder of the command line: tests/cli",
    'export_onnx("model"': "a model folder: tests/integrations/test_onnx.py",
    "integrations.mlflow": "a model folder: tests/integrations/test_mlflow.py",
    "ModelParallelStrategy": "two processes: tests/alignment/test_sharded.py",
    "parallel_config": "a Dask cluster: tests/comparison/test_many_machines.py",
}
QUICK = {"hidden": (8,), "max_epochs": 2}
CLASSES = 3


def blocks(page: Path) -> list[str]:
    found = [textwrap.dedent(code) for _, code in CODE.findall(page.read_text(encoding="utf-8"))]
    return [code for code in found if not any(word in code for word in ELSEWHERE)]


def with_defaults(make, **defaults):
    """A class or function with small numbers wherever the page leaves them to us."""
    return lambda *given, **named: make(*given, **{**defaults, **named})


def make_quick(replace) -> None:
    """Replace what takes long by something small; ``replace`` is called like ``setattr``."""
    from eastward import comparison
    from eastward.estimators.boosting import EASTBoostingClassifier
    from eastward.estimators.ensemble import EASTEnsembleClassifier
    from eastward.estimators.network import EASTClassifier

    few = ("cross_entropy", "random_forest")
    replace(comparison, "DEFAULT_METHODS", few)
    fast = {"n_splits": 2, "methods": few, "method_options": QUICK}
    small = {"n_estimators": 5, "cv": 2, "n_bags": 1, "aligned_rounds": 2}
    replacements = {
        "EASTClassifier": with_defaults(EASTClassifier, **QUICK),
        "EASTBoostingClassifier": with_defaults(EASTBoostingClassifier, **small),
        "EASTEnsembleClassifier": with_defaults(EASTEnsembleClassifier, parts=("random_forest",)),
        "compare": lambda *given, **named: comparison.compare(
            *given, **{**fast, **named, "n_jobs": 1}
        ),
    }
    for name, replacement in replacements.items():
        replace(ew, name, replacement)


def objects() -> dict[str, object]:
    """The objects that a reader has."""
    torch.manual_seed(0)
    X, y = make_classification(150, 20, weights=[0.8], random_state=0)
    X = X.astype(np.float32)
    inputs, targets = torch.randn(60, 20), torch.arange(60) % CLASSES
    network = torch.nn.Linear(20, CLASSES)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(y)), batch_size=50
    )
    return {
        "__name__": "page",
        "print": lambda *_: None,
        "ew": ew,
        "torch": torch,
        "LogisticRegression": LogisticRegression,
        "X": X,
        "y": y,
        "X_new": X,
        "X_test": X,
        "y_test": y,
        "X_held_out": X,
        "y_held_out": y,
        "your_classifier": LogisticRegression(),
        "inputs": inputs,
        "targets": targets,
        "network": network,
        "model": network,
        "logits": network(inputs),
        "log_probabilities": network(inputs).detach().log_softmax(1),
        "loss": ew.EASTLoss("f1_macro"),
        "optimizer": torch.optim.SGD(network.parameters(), lr=0.1),
        "loader": [(inputs[:30], targets[:30]), (inputs[30:], targets[30:])],
        "micro_batches": [(inputs[:30], targets[:30]), (inputs[30:], targets[30:])],
        "train_loader": loader,
        "validation_loader": loader,
        "valid_loader": loader,
        "make_network": torch.nn.Linear,
        "Module": torch.nn.Linear,
    }


def boosting_sets(names):
    import lightgbm
    import xgboost

    table = names["inputs"].numpy(), names["targets"].numpy()
    names["train_set"] = lightgbm.Dataset(*table)
    names["valid_set"] = lightgbm.Dataset(*table, reference=names["train_set"])
    names["train_matrix"], names["valid_matrix"] = (xgboost.DMatrix(*table) for _ in range(2))


def trainer_parts(names):
    """What the page on other frameworks calls model, arguments, train and valid, and a table for its estimators."""
    from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

    sizes = {"hidden_size": 8, "num_attention_heads": 1, "intermediate_size": 8, "vocab_size": 9}
    names["model"] = BertForSequenceClassification(BertConfig(num_hidden_layers=1, **sizes))
    names["arguments"] = TrainingArguments("trainer", report_to="none", use_cpu=True)
    names["train"] = names["valid"] = []


EXTRAS = {"boosting": boosting_sets, "integrations": trainer_parts}


def run(page: Path) -> None:
    names = objects()
    EXTRAS.get(page.stem, lambda _: None)(names)
    for code in blocks(page):
        if "export_onnx(model" in code:
            names["model"] = ew.EASTClassifier("f1_macro").fit(names["X"], names["y"])
        exec(compile(code, page.name, "exec"), names)


def run_in_a_job(rank: int, page: Path, folder: Path) -> None:
    """Run a page in a job of one process, in a process that nobody else needs."""
    os.chdir(folder)
    torch.set_num_threads(1)
    make_quick(setattr)
    store = f"file://{folder}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=1)
    run(page)
    end_process()


def marked(page):
    # Other frameworks warn about themselves.
    quiet = [pytest.mark.filterwarnings("ignore")] if page.stem == "integrations" else []
    return pytest.param(page, marks=quiet, id=page.stem)


@pytest.mark.slow
@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_the_code_of_the_page_runs(page, tmp_path, monkeypatch):
    if any("DistributedDataParallel" in code for code in blocks(page)):
        torch.multiprocessing.spawn(run_in_a_job, args=(page, tmp_path), nprocs=1)
        return
    monkeypatch.chdir(tmp_path)
    make_quick(monkeypatch.setattr)
    run(page)
