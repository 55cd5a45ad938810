"""CocktailParty (Zen et al. 2010): six people at a party, seen every five seconds.

Pairs, as Bridging the Gap uses them, and whole frames for the graph experiment. Read from a table of pairs, or
from the two text files with people and groups of each frame.
"""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from eastward import _checks
from papers.data.sources import find, missing
from papers.data.values import Frames, Table

__all__ = ["read_cocktail_frames", "read_cocktail_pairs"]

PEOPLE_FILE, GROUPS_FILE = "dante_features.txt", "dante_group_names.txt"
PARTS = ("x", "y", "theta")
OTHERS = 4


def read_cocktail_pairs(folder: Path | None, *, order_seed: int = 0) -> Table:
    r"""Read every pair of every frame; positive if the two stand in different groups.

    Bridging the Gap's preparation: the two of a pair come in random order, so that their order carries no information;
    positions are relative to the middle of the pair and turned by :math:`-\gamma`, where
    :math:`\gamma = \operatorname{atan2}(\Delta y, \Delta x)` is the direction from the second to the first; angles are
    turned alike and given as cosine and sine. The pair's own :math:`y` is then 0 and left out.

    Parameters
    ----------
    folder : Path or None
        The data folder.
    order_seed : int, default=0
        Seed of the order within pairs.

    Returns
    -------
    Table
        4 800 rows, 22 features: the pair and the four others. Groups are frames, in the order of time.
    """
    path = find("cocktail_party", folder)
    raw = (
        pd.read_parquet(path)
        if path.suffix == ".parquet"
        else pairs_of_frames(read_cocktail_frames(folder))
    )
    raw = _shuffled_pairs(raw, np.random.default_rng(order_seed))
    features = centred_and_turned(raw).drop(columns=["dyad1_y", "dyad2_y"])
    return Table(
        features.to_numpy(np.float32),
        (raw["target"] == 0).to_numpy(np.int64),
        tuple(features.columns),
        raw["frame"].to_numpy(np.int64),
    )


def centred_and_turned(raw: pd.DataFrame) -> pd.DataFrame:
    """Transform positions and angles to the pair's own coordinates: its middle is 0, and its line is the x axis."""
    people = ["dyad1", "dyad2", *(f"context{k}" for k in range(1, OTHERS + 1))]
    middle = {axis: (raw[f"dyad1_{axis}"] + raw[f"dyad2_{axis}"]) / 2 for axis in ("x", "y")}
    turn = np.arctan2(raw["dyad1_y"] - raw["dyad2_y"], raw["dyad1_x"] - raw["dyad2_x"])
    columns: dict[str, Any] = {}
    for person in people:
        x, y = (raw[f"{person}_{axis}"] - middle[axis] for axis in ("x", "y"))
        angle = raw[f"{person}_theta"] - turn
        columns |= {
            f"{person}_x": np.cos(turn) * x + np.sin(turn) * y,
            f"{person}_y": np.cos(turn) * y - np.sin(turn) * x,
            f"{person}_cos": np.cos(angle),
            f"{person}_sin": np.sin(angle),
        }
    return pd.DataFrame(columns)


def _shuffled_pairs(raw: pd.DataFrame, generator: np.random.Generator) -> pd.DataFrame:
    swap = generator.random(len(raw)) < 0.5
    raw = raw.copy()
    for part in PARTS:
        first, second = raw[f"dyad1_{part}"].copy(), raw[f"dyad2_{part}"].copy()
        raw[f"dyad1_{part}"] = np.where(swap, second, first)
        raw[f"dyad2_{part}"] = np.where(swap, first, second)
    return raw


def pairs_of_frames(frames: Frames) -> pd.DataFrame:
    """The table of pairs: the pair, the four others in order, and ``target`` 1 for one group."""
    rows = []
    angles = np.arctan2(frames.people[..., 3], frames.people[..., 2])
    for number, people in enumerate(frames.people):
        for first, second in combinations(range(len(people)), 2):
            others = [k for k in range(len(people)) if k not in {first, second}]
            named = zip(
                ("dyad1", "dyad2", *(f"context{k}" for k in range(1, OTHERS + 1))),
                (first, second, *others),
                strict=True,
            )
            row = {"frame": number, "target": int(frames.together[number, first, second])}
            for name, k in named:
                values = (people[k, 0], people[k, 1], angles[number, k])
                row |= {f"{name}_{part}": value for part, value in zip(PARTS, values, strict=True)}
            rows.append(row)
    return pd.DataFrame(rows)


def read_cocktail_frames(folder: Path | None) -> Frames:
    """Everybody in every frame, and who stands together; frames without groups are left out.

    Returns
    -------
    Frames
        320 frames of six people.
    """
    place = find("cocktail_party", folder).parent
    for name in (PEOPLE_FILE, GROUPS_FILE):
        if not (place / name).exists():
            missing("cocktail_party", folder, f"cocktail_party/{name}")
    groups = _groups_by_time(place / GROUPS_FILE)
    times, people, together = [], [], []
    for line in (place / PEOPLE_FILE).read_text(encoding="utf-8").splitlines():
        time, *words = line.split()
        if time not in groups:
            continue
        names, values = words[0::4], np.array(words, dtype=object).reshape(-1, 4)[:, 1:]
        x, y, angle = values.astype(np.float64).T
        times.append(float(time))
        people.append(np.stack([x, y, np.cos(angle), np.sin(angle)], axis=1))
        together.append(_together(names, groups[time]))
    if len({len(frame) for frame in people}) != 1:
        found = f"between {min(map(len, people))} and {max(map(len, people))}"
        _checks.fail(
            "read_cocktail_frames", PEOPLE_FILE, "the same number of people at each time", found
        )
    return Frames(
        np.stack(people).astype(np.float32), np.stack(together), np.array(times, dtype=np.float64)
    )


def _groups_by_time(path: Path) -> dict[str, list[list[str]]]:
    groups = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        time, _, rest = line.partition(" ")
        groups[time] = [part.split() for part in re.findall(r"<([^>]*)>", rest)]
    return groups


def _together(names: list[str], groups: list[list[str]]) -> Any:
    # A person in no group is a group of one.
    group_of = {name: number for number, group in enumerate(groups) for name in group}
    numbers = np.array([group_of.get(name, -1 - k) for k, name in enumerate(names)])
    return numbers[:, None] == numbers[None, :]
