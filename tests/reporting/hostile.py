"""A summary in which every text that could come from data tries to break out."""

from __future__ import annotations

import numpy as np

from eastward.reporting import evaluation_summary, report_summary

SCRIPT = "<script>alert(1)</script>"
IMAGE = '"></script><img src=x onerror=alert(2)>'
TEMPLATE = "{{ 7 * 7 }} | `rm` *x* $HOME"
SHELL = "it's; $(touch /tmp/x) `y` \\"
CLASSES = [SCRIPT, IMAGE, SHELL]


def hostile_summary() -> dict:
    rng = np.random.default_rng(0)
    targets = np.repeat([0, 1, 2], 20)
    logits = rng.normal(size=(60, 3)) + 1.5 * np.eye(3)[targets]
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    method = {
        "label": SCRIPT,
        "mean": 0.5,
        "interval": [0.4, 0.6],
        "wins": 1,
        "ties": 0,
        "losses": 0,
    }
    difference = {"mean": 0.1, "interval": [0.0, 0.2], "probability": 0.9}
    return report_summary(
        SCRIPT,
        "f1_macro",
        data={
            "name": IMAGE,
            "rows": 60,
            "features": 1,
            "classes": [{"label": label, "count": 20} for label in CLASSES],
            "imbalance": 1.0,
            "warnings": [IMAGE, TEMPLATE],
            "columns": [{"name": TEMPLATE, "kind": SCRIPT}],
            "profile": {
                "columns": [
                    {
                        "name": SCRIPT,
                        "kind": SCRIPT,
                        "missing": 0.5,
                        "distinct": 2,
                        "values": [{"label": IMAGE, "count": 3}],
                        "target": 0.5,
                    },
                    {
                        "name": IMAGE,
                        "kind": "date",
                        "missing": 0.0,
                        "distinct": 2,
                        "numbers": {"low": SCRIPT, "median": IMAGE, "high": SCRIPT, "bars": [1, 2]},
                        "target": None,
                    },
                ],
                "alike": [{"first": SCRIPT, "second": IMAGE, "association": 0.95}],
            },
        },
        comparison={
            "metric": "f1_macro",
            "higher_is_better": True,
            "baseline": "a",
            "splits": 2,
            "methods": [
                {"name": "a", **method, "difference": difference},
                {"name": IMAGE, **method, "label": TEMPLATE, "difference": difference},
            ],
            "verdict": {"sentence": SCRIPT, "detail": [IMAGE, TEMPLATE], "recommended": IMAGE},
        },
        evaluation=evaluation_summary(targets, logs, CLASSES, "f1_macro", n_bootstrap=20),
        training={
            "stages": [{"name": SCRIPT, "argmax": 0.5, "tuned": 0.6}],
            "sentences": [IMAGE],
            "notes": [SCRIPT],
            "history": [
                {
                    "stage": IMAGE,
                    "epoch": k,
                    "temperature": 0.2,
                    "valid_loss": 0.5,
                    "valid_score": 0.4,
                }
                for k in (1, 2)
            ],
        },
        commands={
            "train": "eastward train 'a b.csv' --target y --metric f1 --out model",
            SCRIPT: IMAGE,
        },
    )
