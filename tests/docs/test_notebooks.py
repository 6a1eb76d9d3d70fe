"""Every notebook runs from top to bottom in an empty folder, and shows what its text promises."""

from __future__ import annotations

import json
import re

import nbformat
import pytest
from nbclient import NotebookClient

from tests.architecture.source import ROOT

FOLDER = ROOT / "docs" / "notebooks"
# name -> what is read from the notebook at its end
RESULTS = {
    "first-training": "[before['mean'], after['mean'], len(run.metrics)]",
    "own-environment": "[before, after, result.mean, result.components]",
    "own-algorithm": "{name: [row['mean'] for row in run.evaluations] for name, run in runs.items()}",
    "served-model": "[url, remote.by_task, local.by_task, reply.choices[0].message.content, server.poll()]",
}
CELL_S = 240


def test_notebooks_are_kept_without_outputs():
    assert {path.stem for path in FOLDER.iterdir()} == RESULTS.keys()
    for name in RESULTS:
        notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
        nbformat.validate(notebook)
        assert "pip install -e '.[" in notebook.cells[0].source, name
        for cell in notebook.cells:
            assert not cell.get("outputs"), f"{name}: {cell.source}"
            assert cell.get("execution_count") is None, f"{name}: {cell.source}"


@pytest.fixture
def executed(tmp_path, monkeypatch):
    """Run a notebook with this Python's kernel; its outputs as one text, and what its entry in `RESULTS` is."""
    settings = {"JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython"}
    for name, folder in settings.items():
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "work").mkdir()

    def execute(name):
        notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
        read = nbformat.v4.new_code_cell(f"import json\nprint(json.dumps({RESULTS[name]}))")
        notebook.cells.append(read)
        resources = {"metadata": {"path": str(tmp_path / "work")}}
        NotebookClient(notebook, timeout=CELL_S, kernel_name="python3", resources=resources).execute()
        outputs = [output for cell in notebook.cells[:-1] for output in cell.get("outputs", ())]
        return [_text(output) for output in outputs], json.loads(read.outputs[0].text)

    return execute


def _text(output):
    plain = output.get("text") or output["data"]["text/plain"]
    return re.sub(r"\x1b\[[\d;]*m", "", plain)


def bars(texts):
    """Last state of the progress bars; one in a notebook is updated in place."""
    return [text for text in texts if text.startswith("training")]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_first_training(executed):
    texts, (before, after, steps) = executed("first-training")
    assert (before < 0.3, after > 0.6, steps) == (True, True, 30)
    (bar,) = bars(texts)
    assert "30/30" in bar
    assert not [text for text in texts if "Error" in text or "for Jupyter support" in text]
    assert f"step 30: {after:.2f} [" in "".join(texts)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_own_environment(executed):
    texts, (before, after, again, parts) = executed("own-environment")
    assert before < 1.4 < 1.8 < after <= 2
    assert again == pytest.approx(sum(parts.values()))
    assert again > 1.8
    assert texts[0] == "2.0"  # the agreed policies
    assert len(bars(texts)) == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_own_algorithm(executed):
    texts, means = executed("own-algorithm")
    assert list(means) == ["magrpo", "magrpo-median"]
    assert means["magrpo"][0] == means["magrpo-median"][0] < 0.3
    assert means["magrpo"][-1] != means["magrpo-median"][-1]  # the same seed, another baseline
    assert min(rows[-1] for rows in means.values()) > 0.5
    assert len(bars(texts)) == 2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_served_model(executed):
    _, (url, remote, local, answer, code) = executed("served-model")
    assert url.startswith("http://127.0.0.1:")
    assert remote == local
    assert sum(remote.values()) / len(remote) > 0.5
    assert re.fullmatch(r"a1 (red|green|blue)\.", answer)
    assert code is not None  # it has ended
