"""The notebook runs from top to bottom."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.testing import ScriptedServer

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebooks" / "first_run.ipynb"


@pytest.mark.needs("mlflow")  # It brings pandas and matplotlib along.
async def test_the_notebook_runs(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names: dict[str, Any] = {"__name__": "notebook"}
    async with ScriptedServer("The answer is 4") as server:
        monkeypatch.setenv("MODEL_URL", server.url)
        for cell in json.loads(NOTEBOOK.read_text())["cells"]:
            if cell["cell_type"] != "code":
                continue
            assert cell["outputs"] == [], "clear the outputs"
            code = compile("".join(cell["source"]), cell["id"], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            made = eval(code, names)
            if inspect.isawaitable(made):
                await made
    assert server.count == 60 + 2 * 60
    assert set(names["rows"]["reward"]) <= {0.0, 1.0}
    said = capsys.readouterr()
    assert "quickstart: 60/60" in said.err
    assert names["report"]["verdict"] in said.out
