"""The notebook runs from top to bottom in a real Jupyter kernel, and shows there what people look at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.testing import ScriptedServer

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebooks" / "first_run.ipynb"
# In a process of its own: the warnings of Jupyter's libraries are not ours to mend.
RUN = """
import sys, nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": "."}}).execute()
nbformat.write(notebook, "done.ipynb")
"""


def said(cell: dict[str, Any], kind: str) -> str:
    return "".join("".join(out["text"]) for out in cell["outputs"] if out.get("name") == kind)


@pytest.mark.needs("jupyter")
@pytest.mark.needs("mlflow")  # It brings pandas and matplotlib along.
def test_the_notebook_runs_in_jupyter(tmp_path: Path) -> None:
    assert all(not cell.get("outputs") for cell in json.loads(NOTEBOOK.read_text())["cells"]), (
        "clear the outputs"
    )
    with ScriptedServer("The answer is 4") as server:
        environment = {**os.environ, "MODEL_URL": server.url}
        command = [sys.executable, "-c", RUN, str(NOTEBOOK)]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert server.count == 60 + 2 * 60
    cells = [
        cell
        for cell in json.loads((tmp_path / "done.ipynb").read_text())["cells"]
        if cell["cell_type"] == "code"
    ]
    asked = [cell for cell in cells if "run_evaluation" in "".join(cell["source"])]
    assert len(asked) == 2
    for cell in asked:
        # Drawn again on one line, below the cell that runs, and not one line under the other.
        progress = said(cell, "stderr")
        assert "\rquickstart: 60/60" in progress.replace("\x1b[2K", "")
        assert progress.count("\n") <= 3
    assert any("image/png" in out.get("data", {}) for cell in cells for out in cell["outputs"]), (
        "the plot"
    )
    assert any("text/html" in out.get("data", {}) for cell in cells for out in cell["outputs"]), (
        "the table"
    )
    (compared,) = [cell for cell in cells if "compare_runs" in "".join(cell["source"])]
    assert said(compared, "stdout").split()[0] in ("PASS", "WARN", "BLOCK", "INCONCLUSIVE")
