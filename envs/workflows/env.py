"""A workflow as an environment: any number of agents, any task with a scorer.

A subclass, or a function, hands in the workflow, the scorer and the tasks; `palaver.envs.workflows.other` takes another
environment for the task, `palaver.envs.maths.env` questions with a right answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from palaver.envs.base.arguments import whole_number
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.questions import InferenceQuestion
from palaver.envs.base.tasks import Task
from palaver.envs.workflows import prompts, rules
from palaver.envs.workflows.graph import Workflow, WorkflowStage
from palaver.envs.workflows.reward import RIGHT
from palaver.envs.workflows.reward_scheme import (
    Parts,
    RewardScheme,
    TurnScores,
    most_possible,
    penalties,
    shaped_rewards,
    turn_rewards,
)
from palaver.envs.workflows.rules import ANSWERS, WorkflowText, agreed, majority, pseudo_labels
from palaver.envs.workflows.scoring import Marks, Scorer

MOST_SHOWN = 100_000


class WorkflowEnv(TextEnv):
    """Plays a workflow.

    Args:
        workflow: its stages, with their speakers and the texts shown to them.
        scorer: writes the prompts and scores the answers.
        tasks: the questions.
        reward_scheme: how scores become rewards.
        shown: most characters of a text that are shown to others; a longer one is cut, with a mark.
        source: where the tasks came from.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit.
    """

    def __init__(
        self,
        workflow: Workflow,
        scorer: Scorer,
        tasks: Sequence[Task],
        reward_scheme: RewardScheme,
        *,
        shown: int,
        source: str | Path,
        render_mode: str | None,
        max_length: int,
    ) -> None:
        self.workflow, self.scorer, self.reward_scheme = workflow, scorer, reward_scheme
        self.shown = whole_number("shown", shown, 1, MOST_SHOWN)
        self.num_turns = len(workflow.stages)
        self.first_to_act = workflow.stages[0].speakers
        self.shared_prompt_turns = workflow.shared_prompt_turns()
        self.max_return = most_possible(workflow.stages, workflow.agents, workflow.final, reward_scheme)
        self.record: tuple[WorkflowText, ...] = ()
        self.turns: tuple[TurnScores, ...] = ()
        self.options: dict[str, list[WorkflowText]] = {}  # what each speaker of the turn is shown
        super().__init__(workflow.agents, tasks, render_mode=render_mode, max_length=max_length, source=source)

    def initial_observations(self, _task: Task) -> dict[str, str]:
        """Put the question to those who speak first."""
        self.record, self.turns = (), ()
        return self._prompts(self.workflow.stages[0])

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Score the texts of the turn, give the rewards, and build the next prompts."""
        stage = self.workflow.stages[self.turn]
        asked = {agent: actions[agent] for agent in stage.speakers}
        marks = self.scorer.score(self.task, asked) if stage.kind == "answer" else Marks({})
        texts = [self._read_text(stage, agent, actions[agent], marks) for agent in stage.speakers]
        if self.reward_scheme.labels == "majority" and stage.kind == "answer":
            labels = pseudo_labels([item.key for item in texts])
            texts = [
                WorkflowText(self.turn, item.agent, stage.kind, item.text, item.key, label, item.truth)
                for item, label in zip(texts, labels, strict=True)
            ]
        self.record += tuple(texts)
        self.turns += (self._turn(stage, texts),)
        early = self._ends(stage, texts)
        over = early or self.turn + 1 == self.num_turns
        parts = shaped_rewards(self.turns, self.reward_scheme, over)
        if marks.unscored:
            nothing = dict.fromkeys(parts[0], 0.0)
            return StepResult(dict.fromkeys(self.agents, nothing), reason=marks.reason or "not scored", unscored=True)
        following = None if over else self.workflow.stages[self.turn + 1]
        return StepResult(
            dict(zip(self.agents, parts, strict=True)),
            self._prompts(following) if following else {},
            terminated=over,
            metrics=self._metrics(stage, texts, early) | dict(marks.metrics),
            can_act=following.speakers if following else (),
            reason=marks.reason,
            turn_rewards=self._earned() if over and self.reward_scheme.late else None,
        )

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:
        """The answer that each other agent gives in the same stage."""
        stage = self.workflow.stages[self.turn]
        return [
            InferenceQuestion(
                other,
                f"What is the answer of {other}?",
                "text",
                (),
                (self.scorer.key(actions.get(other, "")) or "none",) if actions else None,
            )
            for other in stage.speakers
            if other != agent and stage.kind == "answer"
        ]

    def _read_text(self, stage: WorkflowStage, agent: str, text: str, marks: Marks) -> WorkflowText:
        """A text with what it answers and what that is worth."""
        if stage.kind == "answer":
            score = marks.scores[agent]
            return WorkflowText(self.turn, agent, "answer", text, self.scorer.key(text), score, score)
        if stage.kind == "verdict":
            verdict = rules.verdict(text)
            judged = rules.standing(self.record, "last")
            score, truth = (
                float(verdict == ("approve" if min(values) > RIGHT else "reject"))
                for values in ([item.score or 0.0 for item in judged], [item.truth or 0.0 for item in judged])
            )
            return WorkflowText(self.turn, agent, "verdict", text, verdict, score, truth)
        if stage.kind == "choice":
            options = self.options[agent]
            choice = rules.picked(text, len(options))
            if choice is None:
                return WorkflowText(self.turn, agent, "choice", text, "", 0.0, 0.0)
            chosen = options[choice]
            return WorkflowText(self.turn, agent, "choice", text, chosen.key, chosen.score, chosen.truth)
        return WorkflowText(self.turn, agent, "talk", text)

    def _turn(self, stage: WorkflowStage, texts: Sequence[WorkflowText]) -> TurnScores:
        own_scores = {item.agent: item.score for item in texts}
        answers = {item.agent: item.score for item in texts if item.kind in ANSWERS}
        costs = {
            item.agent: penalties(
                self.reward_scheme, stage.kind, item.text, bool(item.key), self.scorer.formed(item.text)
            )
            for item in texts
        }
        team = rules.standing(self.record, self.workflow.final)
        decides = answers and (self.workflow.final in ("vote", "last") or self.workflow.final in answers)
        names = {name: 0.0 for cost in costs.values() for name in cost}
        return TurnScores(
            tuple(own_scores.get(agent) for agent in self.agents),
            tuple(answers.get(agent) for agent in self.agents),
            _mean([item.score or 0.0 for item in team]) if decides else None,
            tuple(names | costs.get(agent, {}) for agent in self.agents),
        )

    def _ends(self, stage: WorkflowStage, texts: Sequence[WorkflowText]) -> bool:
        if stage.until == "consensus":
            return agreed([item.key for item in texts], stage.agree)
        return stage.until == "approved" and all(item.key == "approve" for item in texts)

    def _metrics(self, stage: WorkflowStage, texts: Sequence[WorkflowText], early: bool) -> dict[str, float]:
        team = rules.standing(self.record, self.workflow.final)
        truths = [item.truth or 0.0 for item in texts]
        metrics = {
            "correct": _mean([item.truth or 0.0 for item in team]),
            "stopped": float(early and self.turn + 1 < self.num_turns),
        }
        if stage.kind == "verdict":
            metrics |= {"approved": _mean([item.key == "approve" for item in texts]), "verdict_right": _mean(truths)}
        if stage.kind in ANSWERS:
            elected = majority([item.key for item in texts])
            metrics |= {
                "mean_score": _mean(truths),
                "best_score": max(truths),
                "answered": _mean([bool(item.key) for item in texts]),
                "agreement": elected.share,
                "tied": float(elected.tied),
            }
        return metrics

    def _prompts(self, stage: WorkflowStage) -> dict[str, str]:
        """The prompts of a stage's speakers; what they are shown is kept, for a choice refers to it."""
        spoken = {item.agent for item in self.record}
        self.options = {agent: self._visible_texts(agent, stage) for agent in stage.speakers}
        return {
            agent: prompts.stage_prompt(
                "" if agent in spoken else self._opening(agent),
                agent,
                stage,
                texts,
                self.scorer.hide,
                self.max_length,
                self.shown,
            )
            for agent, texts in self.options.items()
        }

    def _opening(self, agent: str) -> str:
        parts = (self.workflow.roles.get(agent, ""), self.scorer.question(self.task, agent))
        return "\n\n".join(filter(None, parts))

    def _visible_texts(self, agent: str, stage: WorkflowStage) -> list[WorkflowText]:
        if stage.shows is None:
            return []
        texts = rules.visible_texts(self.record, agent, stage.shows, stage.kind == "choice")
        if stage.shows.shuffle:
            texts = [texts[n] for n in self.rng.permutation(len(texts))]
        return texts[: stage.shows.most]

    def _earned(self) -> dict[str, list[Parts]]:
        """Agent -> what each turn earned it, penalties included."""
        table = turn_rewards(self.turns, self.reward_scheme)
        return {
            agent: [row[n] | dict(turn.penalties[n]) for row, turn in zip(table, self.turns, strict=True)]
            for n, agent in enumerate(self.agents)
        }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
