"""Bad commands: each ends at once, with its exit code and one sentence, before anything is trained or written."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from command_runs import run

# A row is a command and a part of what it says; TABLE is a good file, FOLDER an empty folder, OUT a new one.
COMMANDS = """
train TABLE -t t -o OUT --seed 99999999999999999999 ==> less than or equal to 4294967295
train TABLE -t t -o OUT --seed -1 ==> greater than or equal to 0
train TABLE -t t -o OUT --seed x ==> valid integer
train TABLE -t t -o OUT --hidden 99999999999 ==> --hidden of train must be widths from 1 to 100,000
train TABLE -t t -o OUT --hidden 0 ==> --hidden of train must be widths from 1
train TABLE -t t -o OUT --hidden x ==> --hidden of train must be widths such as 512,256,128
train TABLE -t t -o /dev/null/x ==> --out of train must be a folder; got /dev/null/x
train TABLE -t t -o TABLE ==> --out of train must be a folder
train TABLE -t t -o '' ==> must be a path; got an empty string
demo -o /dev/null/x ==> --out of demo must be a folder
compare TABLE -t t --hidden 99999999999 ==> --hidden of compare must be widths from 1 to 100,000
train TABLE -t t ==> Missing option '--out'
train TABLE -o OUT ==> Missing option '--target'
train -t t -o OUT ==> DATA
train TABLE -t nope -o OUT ==> nope
train /nope.csv -t t -o OUT ==> /nope.csv
train EMPTY -t t -o OUT ==> got
train FOLDER -t t -o OUT ==> got
train TABLE -t t -o OUT --metric f7x ==> must be a known name
train TABLE -t t -o OUT --metric roc_auc ==> roc_auc
train TABLE -t t -o OUT --method nope ==> method
train TABLE -t t -o OUT --nope ==> No such option
train TABLE -t t -o OUT --ignore t ==> ignore
train TABLE -t t -o OUT --weight t ==> weight
train TABLE -t t -o OUT --cost no=1 ==> cost
train TABLE -t t -o OUT --epochs -1 ==> greater than or equal to 1
train TABLE -t t -o OUT --epochs x ==> valid integer
train TABLE -t t -o OUT --folds 0 ==> --folds of train must be auto or a number
train TABLE -t t -o OUT --folds x ==> --folds of train must be auto or a number
train TABLE -t t -o OUT --holdout 2 ==> holdout
train TABLE -t t -o OUT --encoding base64 ==> encoding
tune TABLE -t t -o TABLE ==> --out of tune must be a folder
tune TABLE -t t -o /dev/null/x ==> --out of tune must be a folder
tune TABLE -t t -o OUT --storage nope://x ==> storage of tune must be a journal file
tune TABLE -t t -o OUT --storage TABLE ==> storage of tune must be a journal file
tune TABLE -t t -o OUT --trials 0 ==> greater than or equal to 1
tune TABLE -t t -o OUT --space nope ==> nope
tune TABLE -t nope -o OUT ==> nope
compare TABLE -t t --methods nope ==> methods of compare must be
compare TABLE -t t --splits 0 ==> greater than or equal to 2
compare TABLE -t t -o /dev/null/x ==> --out of compare must be a folder
compare TABLE -t t --metric f7x ==> must be a known name
compare TABLE -t nope ==> nope
compare /nope.csv -t t ==> /nope.csv
predict /nope TABLE -o OUT ==> must be a model folder
predict FOLDER TABLE -o OUT ==> must be a model folder
predict ==> Missing argument 'MODEL'
predict FOLDER ==> Missing argument 'DATA'
predict FOLDER TABLE ==> Missing option '--output'
evaluate /nope TABLE ==> must be a model folder
evaluate ==> Missing argument
report /nope ==> DIR of report must be a folder with a summary.json
report FOLDER ==> DIR of report must be a folder with a summary.json
metrics nope ==> TEXT of metrics must be part of the name of a metric
datasets nope ==> --output of datasets must be given with a name
nope ==> No such command
--nope ==> No such option
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    table["t"] = np.where(table["a"] > 0, "yes", "no")
    table.to_csv(folder / "g.csv", index=False)
    (folder / "empty.csv").write_text("")
    (folder / "empty").mkdir()
    return {
        "TABLE": folder / "g.csv",
        "EMPTY": folder / "empty.csv",
        "FOLDER": folder / "empty",
        "OUT": folder / "out",
        "''": "",
    }


@pytest.mark.parametrize("row", COMMANDS.strip().splitlines())
def test_a_bad_command_says_what_is_wrong_and_leaves_nothing(places, row):
    words, said = row.split(" ==> ")
    done = run(*(places.get(word, word) for word in words.split()))
    assert done.code == 2
    assert said in " ".join((done.err + done.out).split())
    assert "Traceback" not in done.err
    assert "unexpected" not in done.err
    assert not [path for path in places["OUT"].rglob("*") if path.is_file()]
