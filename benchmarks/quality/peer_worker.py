"""Fits one peer on splits that arrive as lines on standard input; runs in the peer's own environment.

Each line is a JSON object with the path of a split (``.npz`` with train, codes, test), its seed and the peer's options.
The answer is one line of JSON: predicted class indices of the test rows, and the processor seconds of fit and
prediction. Nothing of eastward is imported here, and of the peers only the one that is asked for.
"""

# ruff: noqa: PLC0415
from __future__ import annotations

import json
import logging
import os
import resource
import sys
import tempfile
import time
import warnings
from typing import Any

import numpy as np


def catboost(train: Any, codes: Any, test: Any, seed: int) -> Any:
    from catboost import CatBoostClassifier

    model = CatBoostClassifier(
        auto_class_weights="Balanced",
        random_seed=seed,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
    )
    return model.fit(train, codes).predict(test).reshape(-1)


def flaml(train: Any, codes: Any, test: Any, seed: int, *, seconds: float) -> Any:
    from flaml import AutoML

    model = AutoML()
    metric = "f1" if codes.max() == 1 else "macro_f1"
    model.fit(
        train,
        codes,
        task="classification",
        metric=metric,
        time_budget=seconds,
        n_jobs=1,
        seed=seed,
        verbose=0,
    )
    return model.predict(test)


def realmlp(train: Any, codes: Any, test: Any, seed: int) -> Any:
    from pytabkit import RealMLP_TD_Classifier

    model = RealMLP_TD_Classifier(device="cpu", random_state=seed, n_threads=1, verbosity=0)
    return model.fit(train, codes).predict(test)


def tabm(train: Any, codes: Any, test: Any, seed: int) -> Any:
    from pytabkit import TabM_D_Classifier

    model = TabM_D_Classifier(device="cpu", random_state=seed, n_threads=1, verbosity=0)
    return model.fit(train, codes).predict(test)


def autogluon(train: Any, codes: Any, test: Any, seed: int, *, seconds: float) -> Any:  # noqa: ARG001
    import pandas as pd
    from autogluon.tabular import TabularPredictor

    names = [f"x{k}" for k in range(train.shape[1])]
    frame = pd.DataFrame(train, columns=names).assign(target=codes)
    metric = "f1" if codes.max() == 1 else "f1_macro"
    with tempfile.TemporaryDirectory() as folder:
        model = TabularPredictor("target", eval_metric=metric, path=folder, verbosity=0)
        model.fit(frame, time_limit=seconds, num_cpus=1)
        return model.predict(pd.DataFrame(test, columns=names)).to_numpy()


PEERS = {function.__name__: function for function in (catboost, flaml, realmlp, tabm, autogluon)}


def cpu_seconds() -> float:
    """Return the processor seconds of this process and of its finished children."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a peer prints must not mix with the answers
    for line in sys.stdin:
        asked = json.loads(line)
        with np.load(asked["path"]) as stored:
            train, codes, test = stored["train"], stored["codes"], stored["test"]
        started, cpu = time.perf_counter(), cpu_seconds()
        try:
            found = PEERS[asked["peer"]](train, codes, test, asked["seed"], **asked["options"])
            answer = {"predicted": np.asarray(found).astype(int).tolist()}
        except Exception as error:  # noqa: BLE001  # a peer that fails on a table is a finding, too
            answer = {"failed": f"{type(error).__name__}: {error}"[:300]}
        answer |= {"seconds": time.perf_counter() - started, "cpu": cpu_seconds() - cpu}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
