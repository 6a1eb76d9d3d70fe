"""The progress bar in a terminal, in a file and in a notebook."""

from __future__ import annotations

import io

import IPython.display
import pytest
from rich.console import Console

from palaver.utils.progress import Bar, NotebookBar


class Cell:
    """Display handle of a notebook that keeps what it is shown."""

    def __init__(self, first):
        self.texts = []
        self.update(first)

    def update(self, shown):
        self.texts.append(shown._repr_mimebundle_((), ())["text/plain"])


@pytest.fixture
def cells(monkeypatch):
    made = []

    def display(shown, display_id):
        assert display_id
        made.append(Cell(shown))
        return made[-1]

    monkeypatch.setattr(IPython.display, "display", display)
    return made


def test_a_notebook_shows_one_bar_that_is_updated(cells):
    with NotebookBar("training", Console(file=io.StringIO(), force_jupyter=True), 2) as bar:
        bar.update(bar.task, completed=1, shown="reward 0.500")
        bar.update(bar.task, completed=2)
    (cell,) = cells
    assert [f"{n}/2" in text for n, text in enumerate(cell.texts)] == [True, True, True]
    assert "reward 0.500" in cell.texts[1]


@pytest.mark.parametrize(("quiet", "disable"), [(True, False), (False, True)])
def test_a_hidden_bar_shows_nothing_in_a_notebook(cells, quiet, disable, capsys, recwarn):
    console = Console(file=io.StringIO(), force_jupyter=True, quiet=quiet)
    with NotebookBar("training", console, 2, disable=disable) as bar:
        print("a line of the user's environment")
        bar.update(bar.task, completed=2)
    assert cells == []
    assert capsys.readouterr().out == "a line of the user's environment\n"
    assert not recwarn.list


@pytest.mark.parametrize("terminal", [True, False])
def test_a_script_shows_the_last_state(cells, terminal):
    out = io.StringIO()
    with Bar("training", Console(file=out, force_terminal=terminal, force_jupyter=False, width=100), 2) as bar:
        bar.update(bar.task, completed=2)
    assert "2/2" in out.getvalue()
    assert cells == []
