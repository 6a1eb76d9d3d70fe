"""A judge for tests that reads the prompt as a model would: only what stands between tags with the right mark."""

from __future__ import annotations

import json
import re

from palaver.agents.base.chat import Answer
from palaver.agents.judges.judge import Judge, ScriptedChat
from palaver.agents.judges.spec import JudgeSpec
from palaver.scoring import Cost, ScoringRequest

TWO = {
    "criteria": [
        {"name": "clear", "text": "It is clear.", "weight": 3, "choices": ["no", "partly", "yes"]},
        {"name": "short", "text": "It is short."},
    ]
}


def blocks(conversation) -> dict[str, list[tuple[str, str]]]:
    """Kind -> (label, text) of every fenced text, in order."""
    mark = re.search(r"mark ([0-9a-f]{16})\.", conversation[0].content)[1]
    found = {"said": [], "told": [], "reference": []}
    for kind, label, text in re.findall(
        rf"^<(said|told|reference)-{mark}([^>]*)>\n(.*?)\n</\1-{mark}>$",
        conversation[1].content,
        re.DOTALL | re.MULTILINE,
    ):
        found[kind].append((label.strip(), text))
    return found


def answers(conversation) -> dict[str, str]:
    """Id -> all that was said under it."""
    found: dict[str, str] = {}
    for label, text in blocks(conversation)["said"]:
        id = re.search(r'id="([^"]*)"', label)
        name = id[1] if id else ""
        found[name] = found.get(name, "") + text
    return found


def fair(conversation, seed):
    """Pays 1 for "good" in an answer, 0.5 for "fair"; in whatever form it is asked."""
    said = {id: 1.0 if "good" in text else 0.5 if "fair" in text else 0.0 for id, text in answers(conversation).items()}
    form = conversation[1].content.rpartition("Criteria:")[2]
    if '"answers"' in form:
        listed = [{"id": id, "reason": f"worth {score}", "score": score} for id, score in said.items()]
        return json.dumps({"answers": listed[::-1]})
    if '"better"' in form:
        gap = said["first"] - said["second"]
        return json.dumps({"reason": "seen", "better": "first" if gap > 0 else "second" if gap < 0 else "tie"})
    score = said[""]
    chosen = {0.0: "no", 0.5: "partly", 1.0: "yes"}[score]
    short = "yes" if score else "no"
    return json.dumps({"clear": {"reason": "r1", "choice": chosen}, "short": {"reason": "r2", "choice": short}})


def judge(function=fair, cache=None, **spec) -> Judge:
    return Judge(
        JudgeSpec.model_validate({"model": "scripted", "rubric": TWO, **spec}), chat=Counting(function), cache=cache
    )


class Counting(ScriptedChat):
    """Counts what it is asked; its answers cost 10 tokens read and 2 written."""

    def __init__(self, function=fair, name="scripted", revision="1"):
        super().__init__(function, name)
        self.revision = revision
        self.asked = []

    def ask(self, questions):
        self.asked += questions
        return super().ask(questions)

    def _answer(self, question):
        said = self.function(question.conversation, question.seed)
        return said if isinstance(said, Answer) else Answer(said, cost=Cost(10, 2, 0.5, 1))


def case(text, group="", told="Say something.", **more) -> ScoringRequest:
    return ScoringRequest("t", {"a": told}, {"a": text}, group=group, **more)
