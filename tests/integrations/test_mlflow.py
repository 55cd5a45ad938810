"""A model folder in MLflow: saved, logged, and served over HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest

from eastward.data import frame_columns, make_vectorizer, read_table
from eastward.estimators.tuned import TunedDecisionClassifierCV
from eastward.integrations.mlflow import log_model
from eastward.integrations.mlflow import save_model as save_mlflow
from eastward.model_folder import TableModel, load_model, save_model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
SECONDS_TO_START = 120


def claims(rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    amount, city = rng.gamma(2, 200, rows).round(2), rng.choice(["Graz", "Wien"], rows)
    amount[::9] = np.nan
    return pd.DataFrame({"amount": amount, "city": city, "insured": rng.random(rows) > 0.3})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small model folder with numbers, words, booleans and gaps."""
    from sklearn.tree import DecisionTreeClassifier

    frame = read_table(claims())
    labels = np.where((frame["amount"] > 400) | (frame["city"] == "Wien"), "yes", "no")
    vectorizer = make_vectorizer()
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    model = TunedDecisionClassifierCV(tree, "f1_macro", random_state=0)
    model.fit(vectorizer.fit_transform(frame), labels)
    columns = [column.to_dict() for column in frame_columns(frame)]
    task = {
        "target": "fraud",
        "columns": columns,
        "judged_by": {"name": "f1_macro", "options": {"average": "macro"}},
    }
    path = tmp_path_factory.mktemp("models") / "fraud"
    save_model(TableModel(model, vectorizer, task), path)
    return path


def test_mlflow_gives_what_the_folder_gives(folder, tmp_path):
    save_mlflow(folder, tmp_path / "served")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "served"))
    found = loaded.predict(claims(20))
    pd.testing.assert_frame_equal(found, load_model(folder).predictions(claims(20)))
    assert loaded.metadata.metadata["columns"]["insured"] == "boolean"
    # The folder itself is what is kept: no pickle.
    assert not [path for path in (tmp_path / "served").rglob("*") if path.suffix in {".pkl", ".py"}]


def test_a_folder_is_logged_with_a_run(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run():
        logged = log_model(folder)
    found = mlflow.pyfunc.load_model(logged.model_uri).predict(claims(5))
    assert found["prediction"].tolist() == load_model(folder).predict(claims(5)).tolist()


def test_what_is_not_a_model_folder_is_refused_before_it_is_served(tmp_path):
    with pytest.raises(ValueError, match="folder of load_model must be a model folder"):
        save_mlflow(tmp_path, tmp_path / "served")
    assert not (tmp_path / "served").exists()


def test_a_served_folder_answers_over_http(folder, tmp_path):
    save_mlflow(folder, tmp_path / "served")
    rows = claims(4)
    expected = load_model(folder).predictions(rows)
    with _server(tmp_path / "served") as ask:
        records = json.loads(rows.to_json(orient="records"))
        status, answer = ask(json.dumps({"dataframe_records": records}), "application/json")
        assert status == 200
        found = pd.DataFrame(answer["predictions"])
        pd.testing.assert_frame_equal(found, expected, check_dtype=False)
        status, answer = ask(rows.to_csv(index=False), "text/csv")
        assert status == 200
        assert pd.DataFrame(answer["predictions"])["prediction"].tolist() == (
            expected["prediction"].tolist()
        )
        status, answer = ask('{"dataframe_records": [{"amount": 3}]}', "application/json")
        assert status in {400, 500}
        assert "got none called 'city', 'insured'" in json.dumps(answer)


class _server:  # noqa: N801  # used as a with-word
    """``mlflow models serve`` on the loopback; yields a function that sends it a request."""

    def __init__(self, path: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        words = ["models", "serve", "-m", str(path), "-h", "127.0.0.1", "-p", str(self.port)]
        self.command = [sys.executable, "-m", "mlflow", *words, "--env-manager", "local"]

    def __enter__(self):
        # The server starts Python by its name.
        search = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        paths = os.pathsep.join(path for path in sys.path if path)
        environment = {**os.environ, "PATH": search, "PYTHONPATH": paths}
        self.process = subprocess.Popen(
            self.command,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        end = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < end:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ping", timeout=5).close()
            except OSError:
                time.sleep(0.2)
            else:
                return self.ask
        raise TimeoutError("the server did not start")

    def ask(self, body: str, kind: str):
        address = f"http://127.0.0.1:{self.port}/invocations"
        request = urllib.request.Request(address, body.encode(), {"Content-Type": kind})
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def __exit__(self, *raised: object) -> None:
        os.killpg(self.process.pid, 15)
        self.process.wait(30)
