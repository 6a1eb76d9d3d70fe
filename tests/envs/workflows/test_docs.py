"""The page's examples: the file of twenty lines and the Python, which tests/docs runs."""

from __future__ import annotations

import palaver
from palaver.envs.workflows.builtin import BUILT_IN
from tests.architecture.source import ROOT
from tests.docs.blocks import fences

PAGE = ROOT / "docs" / "workflows.md"


def block(language):
    (found,) = (block for block in fences(PAGE) if block.info == language)
    return found


def test_every_workflow_has_a_section():
    text = PAGE.read_text(encoding="utf-8")
    assert {name for name in BUILT_IN if f"\n## {name}\n" not in text} == {"aggregate"}  # another name of summary


def test_the_file_of_twenty_lines(tmp_path):
    text = block("yaml").code
    assert len(text.splitlines()) <= 20
    (tmp_path / "sceptic.yaml").write_text(text)
    env = palaver.make("gsm8k-v0", workflow=tmp_path / "sceptic.yaml", tasks="sample[:1]")
    told, infos = env.reset()
    assert [agent for agent, info in infos.items() if info["can_act"]] == ["solver"]
    told, *_ = env.step({"solver": "#### 85"})
    assert told["sceptic"].startswith("You doubt everything.\n\nA baker")
    assert told["sceptic"].endswith("solver said:\n> #### 85\n\nSay what speaks against this answer.")
    told, *_ = env.step({"sceptic": "She sells 43."})
    assert told["solver"] == "sceptic said:\n> She sells 43.\n\nAnswer the question."
    assert "solver said:\n> #### 85" in told["second"]
    told, *_ = env.step({"solver": "#### 86", "second": "#### 85"})
    assert told["second"].startswith("Somebody said:\n> ")
    *_, infos = env.step({"solver": "#### 86", "second": "86"})
    assert infos["sceptic"]["metrics"]["correct"] == 1.0
    assert not env.agents


def test_the_python_is_short():
    assert len(block("python").code.splitlines()) <= 20
