"""MLflow: use a model folder as a ``pyfunc`` model, to register it, serve it over HTTP, or score a table.

Most MLflow models are pickles. This one is the folder itself, which is checked on loading; nothing in it is executed
(:func:`eastward.model_folder.load_model`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from eastward._version import __version__
from eastward.data import label_names
from eastward.integrations._extras import missing_extra
from eastward.model_folder import TableModel, load_model

try:
    with warnings.catch_warnings():
        # MLflow warns about its own type hints.
        warnings.simplefilter("ignore")
        import mlflow.pyfunc
        from mlflow.models import ModelSignature
        from mlflow.types.schema import AnyType, ColSpec, DataType, Schema
except ModuleNotFoundError as error:
    raise missing_extra(__name__, error, "tracking") from error

__all__ = ["FolderModel", "log_model", "save_model"]

# Packages that a machine needs to load the folder, besides mlflow.
REQUIREMENTS = (f"eastward[tabular,boost]=={__version__}",)


class FolderModel:
    """A model with MLflow's interface, from a data frame to a data frame.

    Parameters
    ----------
    model : TableModel
        A model loaded from a model folder.
    """

    def __init__(self, model: TableModel) -> None:
        self.model = model

    def predict(self, frame: Any, params: Any = None) -> pd.DataFrame:  # noqa: ARG002  # MLflow's signature
        """Predict a column ``prediction`` and one ``probability_…`` for each class, like ``eastward predict``.

        Parameters
        ----------
        frame : DataFrame
            Rows with the columns of training, in any order; other columns are ignored.
        params : mapping, optional
            Not used; part of MLflow's interface.

        Returns
        -------
        DataFrame
            One row for each row of ``frame``.
        """
        return self.model.predictions(pd.DataFrame(frame))


def save_model(folder: Any, path: Any) -> None:
    """Write a model folder as an MLflow model.

    Parameters
    ----------
    folder : path
        A folder that ``eastward train --out`` wrote.
    path : path
        A new folder. ``mlflow models serve -m PATH --env-manager local`` serves it.
    """
    with _quiet():
        mlflow.pyfunc.save_model(path=str(path), **_described(folder))


def log_model(folder: Any, name: str = "model", **options: Any) -> Any:
    """Log a model folder to the active MLflow run.

    Parameters
    ----------
    folder : path
        A folder that ``eastward train --out`` wrote.
    name : str, default="model"
        Name of the model in the run.
    **options
        Further arguments of :func:`mlflow.pyfunc.log_model`, such as ``registered_model_name``.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Information about the model; pass its ``model_uri`` to :func:`mlflow.pyfunc.load_model`.
    """
    with _quiet():
        return mlflow.pyfunc.log_model(name=name, **_described(folder), **options)


def _load_pyfunc(path: str) -> FolderModel:
    """Load a model; MLflow looks for this name in a loader module."""
    return FolderModel(load_model(path))


def _described(folder: Any) -> dict[str, Any]:
    """Make the arguments of MLflow's functions, and refuse a folder that cannot be loaded."""
    model = load_model(folder)
    names = [f"probability_{name}" for name in label_names(model.classes)]
    label: Any = AnyType
    outputs: list[Any] = [ColSpec(label(), "prediction")]
    outputs += [ColSpec(DataType.double, name) for name in names]
    return {
        "loader_module": __name__,
        "data_path": str(Path(folder)),
        # No input types: MLflow's would refuse a missing boolean, or a number used as a name. The folder checks its
        # input itself, with a clear message.
        "signature": ModelSignature(outputs=Schema(outputs)),
        "metadata": {"columns": {column.name: column.kind for column in model.columns}},
        "pip_requirements": list(REQUIREMENTS),
    }


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        # MLflow recommends its own subclasses and type hints, which a loader module does not need.
        warnings.simplefilter("ignore")
        yield
