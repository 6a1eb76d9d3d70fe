"""A whole episode of every environment, kept as text: any change of what is said or paid shows in the diff.

Rewrite with `PALAVER_REWRITE=1 python -m pytest tests/envs/test_golden.py`, read the diff, and bump the version of an
environment whose transcript changed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import palaver
from palaver.core import Message
from palaver.registry import resolve

FOLDER = Path(__file__).parents[1] / "golden"
KEYWORDS = {"pokemon-v1": {"turn_limit": 6, "reward": "shaped"}}  # a whole battle has 200,000 characters


def transcript(id):
    env = palaver.make(id, **KEYWORDS.get(id, {}))
    policy = resolve(palaver.spec(id).scripted["reference"])
    observations, infos = env.reset(seed=7, options={"task": 0})
    conversations = dict.fromkeys(env.agents, ())
    lines = [f"# {id}, task 0, scripted:reference", "", f"task: {env.task.id}", f"infos: {dumps(infos)}"]
    while env.agents:
        lines.append(f"\n## turn {env.turn}")
        for agent in env.agents:
            conversations[agent] += (Message("user", observations[agent]),)
            lines += [f"\n### {agent} hears", observations[agent]]
        said = {agent: policy(conversations[agent], 0) for agent in env.agents}
        for agent, text in said.items():
            conversations[agent] += (Message("assistant", text),)
            lines += [f"\n### {agent} says", text]
        observations, rewards, terminated, truncated, infos = env.step(said)
        for agent, info in infos.items():
            lines += [f"\n### {agent} is paid {rewards[agent]:.6f}", f"components: {dumps(info['reward_components'])}"]
        lines.append(f"metrics: {dumps(info['metrics'])}")
        lines.append(f"terminated: {dumps(terminated)}, truncated: {dumps(truncated)}")
    return "\n".join(lines) + "\n"


def dumps(record):
    return json.dumps(json.loads(json.dumps(record), parse_float=lambda text: round(float(text), 6)))


@pytest.mark.parametrize("id", palaver.specs())
def test_transcript(id):
    path, text = FOLDER / f"{id}.txt", transcript(id)
    if os.environ.get("PALAVER_REWRITE") == "1":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def test_there_is_no_transcript_of_nothing():
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(palaver.specs())
