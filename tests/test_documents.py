"""What the pages say is true: their code runs, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import eastward as ew

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*/*.md")])
CODE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
CODE_AND_OUTPUT = re.compile(
    r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```)?", re.DOTALL | re.MULTILINE
)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
# A file or folder of the repository, named in text rather than linked.
NAMED = re.compile(
    r"`((?:src/eastward|tests|docs|benchmarks|papers|examples|results|\.ci)/[\w./-]*|pyproject\.toml|constraints\.txt)`"
)
# History names what was there.
OF_TODAY = [
    page for page in PAGES if page.name != "CHANGELOG.md" and page.parent.name != "decisions"
]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def blocks(name: str) -> list[str]:
    return CODE.findall((ROOT / name).read_text(encoding="utf-8"))


@pytest.fixture
def names():
    """The objects that a reader has: a small table, a classifier, a network and its batch."""
    X, y = make_classification(150, 20, weights=[0.8], random_state=0)
    torch.manual_seed(0)
    rows = torch.utils.data.TensorDataset(torch.from_numpy(X).float(), torch.from_numpy(y))
    return {
        "ew": ew,
        "torch": torch,
        "model": torch.nn.Linear(20, 2),
        "train_loader": torch.utils.data.DataLoader(rows, 50),
        "valid_loader": torch.utils.data.DataLoader(rows, 50),
        "X": X.astype(np.float32),
        "y": y,
        "any_classifier": LogisticRegression(),
        "print": lambda *_: None,
    }


def test_the_code_of_the_readme_runs_and_prints_what_the_readme_says(names, capsys):
    del names["print"]
    found = CODE_AND_OUTPUT.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert sum(bool(output) for _, output in found) >= 2
    for block, output in found:
        exec(block, names)
        printed = capsys.readouterr().out
        if output:
            assert NUMBER.sub("#", printed) == NUMBER.sub("#", output)
            # thresholds may move a little with the versions of what is installed
            told, seen = (list(map(float, NUMBER.findall(text))) for text in (output, printed))
            assert seen == pytest.approx(told, abs=0.05)
        if "AlignmentSchedule" in block:
            plain, weighted, aligned = seen
            assert aligned > max(plain, weighted) + 0.02


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


def _quick_classifier(metric, options):
    from eastward.estimators.network import EASTClassifier

    return EASTClassifier(metric, **options)


def test_the_code_of_the_quickstart_runs(names, monkeypatch):
    quick = {"hidden": (8,), "max_epochs": 2, "n_folds": 2}
    monkeypatch.setattr(ew, "EASTClassifier", lambda metric, **_: _quick_classifier(metric, quick))
    found = blocks("docs/quickstart.md")
    assert len(found) >= 4
    for block in found:
        exec(block, names)


EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_of_the_gallery_explains_itself_and_draws(example):
    # The build of the pages runs them; a thumbnail without a picture would pass there.
    text = example.read_text(encoding="utf-8")
    title, rule = text.splitlines()[1:3]
    assert set(rule) == {"="}
    assert len(rule) == len(title)
    assert "plt.show()" in text
    assert len(EXAMPLES) >= 12


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [first or second for first, second in LINK.findall(text)]
    local = [target for target in targets if "://" not in target and not target.startswith("#")]
    missing = [
        target
        for target in local
        # figures and the gallery are made when the site is built
        if not target.startswith(("_generated", "auto_examples", "../auto_examples", "mailto:"))
        and not (page.parent / target.split("#")[0]).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("page", OF_TODAY, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page):
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []
