"""Calls of tools in rollouts, records and batches."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.simple import ScriptedPolicy
from palaver.core import Completion, ConfigError, Message, Request, Sampling
from palaver.envs.base.tools import MOST_CALLS
from palaver.episodes import Episode, Turn
from palaver.registry import make
from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.checks import refuse_tools
from palaver.trainers.config.loading import load
from palaver.trainers.config.run import AlgorithmConfig
from palaver.trainers.objectives.losses import reinforce
from palaver.trainers.rollout.batch import add_advantages, make_batch
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.trainers.rollout.evaluation import tokens
from palaver.trainers.rollout.replays import again
from palaver.trainers.train import prepare
from palaver.trainers.update.sequential_weight import joint_factor, joint_log_ratio
from palaver.trainers.update.update_records import UpdateInput
from palaver.utils.tool_calls import parse_calls
from tests.closeness import assert_values_close
from tests.models import byte_tokenizer, tiny_qwen3
from tests.trainers.learning import config, learners

FIRST = "solver1"
CALL = '<tool_call>{"name": "calculator", "arguments": {"expression": "3 * 4"}}</tool_call>'


class Caller:
    """Calls the calculator `calls` times, then answers with the last result; each text is a token a letter."""

    def __init__(self, *calls: int, text: str = CALL) -> None:
        self.name, self.calls, self.text = "caller", calls, text
        self.requests: list[Request] = []

    def act(self, requests):
        self.requests += requests
        return [[self.answer(request, seed) for seed in request.seeds] for request in requests]

    def answer(self, request: Request, seed: int) -> Completion:
        done = sum(message.role == "tool" for message in request.conversation)
        wanted = int(request.conversation[-2].content) if done else self.calls[seed % len(self.calls)]
        said = f"{wanted}{self.text}" if done < wanted and request.tools else f"#### {request.conversation[-1].content}"
        text, calls = parse_calls(said, request.conversation) if request.tools else (said, ())
        numbers = tuple(map(ord, said[:5]))
        prompt = tuple(ord(letter) for message in request.conversation for letter in message.content[:3])
        logps = (-1.0,) * len(numbers)
        return Completion(text, prompt, numbers, logps, logps, calls=calls)


def env(**keywords):
    return make("maths-mini-v0", tasks="generated:0:4", workflow="vote", agents=2, calculator=True, **keywords)


def play(policy, groups=1, **keywords) -> list[Episode]:
    played = env(**keywords)
    team = dict.fromkeys(played.possible_agents, policy)
    sampling = dict.fromkeys(played.possible_agents, Sampling())
    return rollout(played, team, [played.tasks[0].id], SamplingPlan(groups), sampling=sampling, seed=1)


def test_results_come_back_within_the_turn() -> None:
    policy = Caller(2)
    (episode,) = play(policy)
    turn = episode.turns[0]
    for completion in turn.completions.values():
        assert completion.text == "#### 12"
        assert [step.results[0].content for step in completion.steps] == ["12", "12"]
        assert [step.completion.calls[0].id for step in completion.steps] == ["call00000", "call00001"]
    assert turn.metrics["tool_calls"] == 4
    assert turn.metrics["tool_faults"] == 0
    roles = [message.role for message in policy.requests[-1].conversation]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]


def test_an_agent_that_never_stops_is_not_offered_the_tools_again() -> None:
    policy = Caller(10**9)
    (episode,) = play(policy)
    completion = next(iter(episode.turns[0].completions.values()))
    assert len(completion.steps) == MOST_CALLS
    assert policy.requests[-1].tools == ()


class Stubborn:
    """Calls always, asked or not."""

    name = "stubborn"

    def act(self, requests):
        return [[Completion("", calls=parse_calls(CALL)[1])] * len(request.seeds) for request in requests]


def test_calls_of_tools_that_are_not_offered_are_dropped() -> None:
    (episode,) = play(Stubborn())
    completion = episode.turns[0].completions[FIRST]
    assert (len(completion.steps), completion.text, completion.calls) == (MOST_CALLS, "", ())


def test_an_agent_whose_context_is_full_acts_with_its_last_answer() -> None:
    played, length = env(), 4096
    team_sampling = dict.fromkeys(played.possible_agents, Sampling(max_tokens=12))
    for expected in (1, 0):  # steps, first with room and then without
        options = ModelOptions(device="cpu", max_prompt_tokens=length)
        policy = Calling(tiny_qwen3(0, max_position_embeddings=1024), byte_tokenizer(template=True), options)
        team = dict.fromkeys(played.possible_agents, policy)
        task = [played.tasks[0].id]
        (episode,) = rollout(played, team, task, SamplingPlan(), sampling=team_sampling, seed=3)
        completion = episode.turns[0].completions[FIRST]
        assert (len(completion.steps), completion.calls) == (expected, ())
        first = completion.steps[0].completion if expected else completion
        length = len(first.prompt_ids) + 20


def test_faults_are_counted_and_told() -> None:
    (episode,) = play(Caller(1, text="<tool_call>{</tool_call>"))
    turn = episode.turns[0]
    assert (turn.metrics["tool_calls"], turn.metrics["tool_faults"]) == (2, 2)
    step = next(iter(turn.completions.values())).steps[0]
    assert step.faults == ("no_json",)
    assert step.results[0].content.startswith("error: no_json: ")


def test_an_episode_with_calls_is_stored_and_replayed() -> None:
    (episode,) = play(Caller(2))
    for with_tokens in (True, False):
        stored = Episode.from_dict(json.loads(json.dumps(episode.to_dict(tokens=with_tokens))))
        kept, made = (each.turns[0].completions for each in (stored, episode))
        assert {agent: c.messages for agent, c in kept.items()} == {agent: c.messages for agent, c in made.items()}
        assert (kept == made) == with_tokens
    (replayed,) = again(env(), [stored])
    assert replayed.turns[0].rewards == episode.turns[0].rewards


def test_without_tools_a_call_is_text() -> None:
    played = make("maths-mini-v0", tasks="generated:0:4", workflow="vote", agents=2)
    policy = ScriptedPolicy(lambda conversation, seed: CALL)
    team = dict.fromkeys(played.possible_agents, policy)
    sampling = dict.fromkeys(team, Sampling())
    (episode,) = rollout(played, team, [played.tasks[0].id], SamplingPlan(), sampling=sampling, seed=1)
    completion = episode.turns[0].completions[FIRST]
    assert (completion.text, completion.calls, completion.steps) == (CALL, (), ())
    assert "tool_calls" not in episode.turns[0].metrics
    assert "steps" not in episode.to_dict()["turns"][0]["completions"][FIRST]


def test_every_answer_of_a_turn_is_a_row_and_no_result_is_trained() -> None:
    episodes = play(Caller(0, 1, 2), groups=4)
    batch = make_batch(episodes)
    of_turn = [c for e in episodes for c in e.turns[0].completions.values()]
    assert len(batch) == sum(1 + len(c.steps) for e in episodes for t in e.turns for c in t.completions.values())
    said = {c.token_ids for c in batch.completions}
    assert said == {s.token_ids for c in of_turn for s in (c, *(step.completion for step in c.steps))} | said
    assert batch.action_row is not None
    assert batch.is_action.sum() == len({id(c) for e in episodes for t in e.turns for c in t.completions.values()})
    assert tokens(episodes)[FIRST] > 5


def without_steps(turn: Turn) -> Turn:
    return replace(turn, completions={agent: replace(c, steps=()) for agent, c in turn.completions.items()})


@pytest.mark.parametrize("name", ["magrpo", "marloo", "maremax", "mareinforce"])
@pytest.mark.parametrize("normalize", ["none", "std", "batch"])
def test_advantages_are_those_of_the_actions_alone(name: str, normalize: str) -> None:
    """A candidate with many calls counts once in the mean of its group, and all its answers have its advantage."""
    episodes = play(Caller(0, 1, 2), groups=4)
    rewards = [0.0, 1.0, 5.0, 2.0]
    episodes = [
        replace(e, turns=tuple(replace(t, rewards=dict.fromkeys(t.rewards, r)) for t in e.turns))
        for e, r in zip(episodes, rewards, strict=True)
    ]
    bare = [
        replace(
            e,
            turns=tuple(
                replace(t, completions={a: replace(c, steps=()) for a, c in t.completions.items()}) for t in e.turns
            ),
        )
        for e in episodes
    ]
    config = AlgorithmConfig(normalize=normalize, group_size=4)
    with_steps, without = make_batch(episodes), make_batch(bare)
    filled, expected = (add_advantages(batch, algorithm(name), config) for batch in (with_steps, without))
    actions = filled.is_action
    assert torch.equal(filled.advantage[actions], expected.advantage)
    assert torch.equal(filled.returns[actions], expected.returns)
    assert torch.equal(filled.advantage, filled.advantage[filled.action_row])
    assert torch.equal(filled.weight[actions], expected.weight)
    assert torch.equal(filled.root_return, expected.root_return)
    assert len(filled) > len(expected)


def test_a_cost_of_calls_is_a_cost_of_their_action() -> None:
    batch = make_batch(play(Caller(2), groups=1))
    cost = torch.arange(len(batch), dtype=torch.float64)
    filled = add_advantages(batch, algorithm("mareinforce"), AlgorithmConfig(group_size=1), cost=cost)
    rows = [row for row in range(len(batch)) if batch.action_row[row] == 0]
    free = add_advantages(batch, algorithm("mareinforce"), AlgorithmConfig(group_size=1))
    assert float(free.returns[0] - filled.returns[0]) == pytest.approx(sum(rows))


def test_ratios_of_a_sequence_are_of_all_answers_of_a_turn() -> None:
    batch = make_batch(play(Caller(0, 1, 2), groups=4))
    factor = joint_factor(torch.linspace(-1, 1, len(batch.steps), dtype=torch.float64), batch, 10.0)
    assert torch.equal(factor, factor[batch.action_row])
    assert not factor.isnan().any()
    before = {row: torch.tensor(c.sample_logprobs) for row, c in enumerate(batch.completions)}
    after = {row: logps + 0.1 for row, logps in before.items()}
    expected = torch.zeros(len(batch.steps), dtype=torch.float64)
    for row, step in zip(batch.member_row.tolist(), batch.member_step.tolist(), strict=True):
        answers = (batch.action_row == row).nonzero()[:, 0].tolist()
        expected[step] += 0.1 * sum(len(before[answer]) for answer in answers)
    assert_values_close(joint_log_ratio(before, after, batch, True), expected)


@pytest.mark.parametrize("name", ["vdn", "madpo", "cory"])
def test_algorithms_of_single_answers_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="the agents of maths-mini-v0 have tools"):
        refuse_tools(load("maths-debate-magrpo"), algorithm(name))


def test_a_recipe_may_give_its_agents_a_calculator() -> None:
    _, played, held_out = prepare(load("maths-debate-magrpo", ["env.calculator=true"]))
    assert [len(each.tools(each.possible_agents[0])) for each in (played, held_out)] == [1, 1]


def test_messages_without_calls_are_one_answer() -> None:
    assert Completion("x").messages == (Message("assistant", "x"),)


class Calling(LLMPolicy):
    """Calls the calculator in its first answer of a turn, whatever it samples."""

    def completion(self, prompt, request, sample):
        made = super().completion(prompt, request, sample)
        if not request.tools or request.conversation[-1].role == "tool":
            return made
        return replace(made, calls=parse_calls(CALL, request.conversation)[1])


def test_log_probs_of_answers_with_calls_are_those_of_their_sampling() -> None:
    """The learner scores each answer behind the prompt that it was sampled from, results included."""
    model, played = tiny_qwen3(0, max_position_embeddings=1024), env()
    policy = Calling(model, byte_tokenizer(template=True), ModelOptions(device="cpu"))
    team = dict.fromkeys(played.possible_agents, policy)
    sampling = dict.fromkeys(team, Sampling(max_tokens=12))
    ids = [task.id for task in played.tasks[:2]]
    batch = make_batch(rollout(played, team, ids, SamplingPlan(2), sampling=sampling, seed=3))
    assert batch.action_row is not None
    assert int(batch.is_action.sum()) * 2 == len(batch) == 16
    settings = config(algorithm={"group_size": 2})
    (learner,) = learners(team, settings)
    rows = list(range(len(batch)))
    scored = learner.log_probs(batch, rows)
    for row in rows:
        told = torch.tensor(batch.completions[row].sample_logprobs)
        assert_values_close(scored[row], told)
        shown = policy.tokenizer.decode(batch.completions[row].prompt_ids)
        assert ("<|im_start|>tool\n12<|im_end|>" in shown) == bool(batch.is_action[row])
    filled = replace(add_advantages(batch, algorithm("magrpo"), settings.algorithm), advantage=torch.randn(16).double())
    stats = learner.update(UpdateInput(filled, rows, reinforce, 1))
    assert (stats.rows, stats.passes) == (16, 1)
    assert stats.drift < 1e-4
