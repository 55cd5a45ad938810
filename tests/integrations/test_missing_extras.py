"""Each adapter without its framework says, in one line, which extra brings it."""

from __future__ import annotations

import importlib
import sys

import pytest

ADAPTERS = {
    "lightning": ("lightning.pytorch", "lightning"),
    "mlflow": ("mlflow.pyfunc", "tracking"),
    "onnx": ("onnx", "onnx"),
    "skorch": ("skorch.callbacks", "skorch"),
    "torchmetrics": ("torchmetrics", "torchmetrics"),
    "transformers": ("transformers", "hf"),
}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_missing_framework_is_named_with_its_extra(adapter, monkeypatch):
    framework, extra = ADAPTERS[adapter]
    name = f"eastward.integrations.{adapter}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, framework, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(name)
    assert str(caught.value) == (
        f"{name} needs {framework}: install it with  pip install 'eastward[{extra}]'"
    )


def test_the_adapters_are_all_here():
    from pathlib import Path

    import eastward.integrations

    folder = Path(eastward.integrations.__file__).parent
    found = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert found == set(ADAPTERS)
