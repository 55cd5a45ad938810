"""What one process of a ``torchrun`` job does: its rows into a true and a soft metric, which add up over processes."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist

import eastward as ew
from eastward.integrations.torchmetrics import SoftMetric, TrueMetric
from eastward.training.launch import end_process


def rows():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(60, 4, generator=generator)
    return logits, torch.randint(4, (60,), generator=generator)


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    # Uneven shares, in unequally many batches: tables are summed only when the value is computed.
    mine = [(25, 40), (40, 60)] if rank else [(0, 25)]
    metrics = {
        "true": TrueMetric("f1_macro", num_classes=4),
        "soft": SoftMetric(ew.EASTLoss("f1_macro")),
    }
    for metric in metrics.values():
        for start, end in mine:
            metric.update(*(part[start:end] for part in rows()))
    found = {name: metric.compute().item() for name, metric in metrics.items()}
    torch.save(found, Path(sys.argv[1]) / f"{rank}.pt")
    end_process()


if __name__ == "__main__":
    main()
