"""Values of tokens: GAE over tokens and turns against numpy, what a critic reads, what a token's advantage trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from palaver.episodes import Episode, Turn
from palaver.trainers.algorithms.base import ALGORITHMS, algorithm, has_token_values
from palaver.trainers.config.loading import load
from palaver.trainers.config.run import AlgorithmConfig, CriticConfig
from palaver.trainers.objectives.token_values import TokenValues, laid_out
from palaver.trainers.rollout.batch import Batch, add_advantages, make_batch
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.update_records import token_advantages
from tests.trainers.learning import (
    completion,
    episode,
    row_at,
)  # fmt: skip
from tests.trainers.toys import SEATS

WORLD = Distributed("cpu", "fp32")
IPPO = algorithm("ippo")


def drawn(table: Batch, seed: int, costs: bool = True) -> tuple[torch.Tensor, torch.Tensor, TokenValues]:
    """Values of the first tokens (R,), sums of costs (R,), and values and costs of all tokens, at random."""
    rng = np.random.default_rng(seed)
    length = torch.tensor([len(said.token_ids) for said in table.completions])
    value, cost = (laid_out(torch.from_numpy(rng.normal(size=int(length.sum()))), length) for _ in range(2))
    tokens = TokenValues(value, cost * costs, length)
    return value[:, 0], tokens.kl_cost.sum(dim=1), tokens


def assert_advantages(table: Batch, tokens: TokenValues, row: int, expected: Sequence[float]) -> None:
    got = table.token_advantage[row]
    assert got[: len(expected)].tolist() == pytest.approx(list(expected), abs=1e-9)
    assert got[len(expected) :].tolist() == [0.0] * (len(got) - len(expected))
    assert float(table.advantage[row]) == pytest.approx(np.mean(expected), abs=1e-9)
    target = (table.token_advantage + tokens.value)[row]
    assert target.tolist() == pytest.approx(table.token_returns[row].tolist(), abs=1e-9)


# --- against numpy ---


def flat_gae(turns: Sequence[tuple[float, np.ndarray | None, np.ndarray | None]], gamma: float, decay: float):
    """Advantages of all tokens of one agent: the recursion of the TD errors over one flat sequence of tokens.

    `turns` are (reward, values of its tokens or None where it waits, costs of its tokens).
    """
    value, reward, ahead = [], [], []  # of every token; `ahead` is the discount of what follows it
    for paid, values, costs in turns:
        if values is None:
            if value:
                reward[-1] += ahead[-1] * paid
                ahead[-1] *= gamma
            continue
        value += list(values)
        reward += list(-costs)
        reward[-1] += paid
        ahead += [1.0] * (len(values) - 1) + [gamma]
    advantage, after, behind = np.zeros(len(value)), 0.0, 0.0
    for k in reversed(range(len(value))):
        error = reward[k] + ahead[k] * after - value[k]
        advantage[k] = error + ahead[k] * decay * behind
        after, behind = value[k], advantage[k]
    return advantage


@pytest.mark.parametrize("decay", [0.0, 0.6, 0.95, 1.0])
@pytest.mark.parametrize("gamma", [1.0, 0.7])
@pytest.mark.parametrize("cut", [False, True], ids=["terminated", "cut"])
def test_chains_of_turns_and_agents_equal_numpy(gamma, decay, cut):
    """Three agents, four turns, 1 to 5 tokens, KL per token; each agent waits at other turns, one at the last."""
    rng = np.random.default_rng(4)
    silent = {"a": {1}, "b": {0, 3}, "c": {1, 2}}
    said = [{s: completion(int(rng.integers(1, 6))) for s in "abc" if turn not in silent[s]} for turn in range(4)]
    paid = rng.normal(size=(4, 3))
    turns = []
    for index, words in enumerate(said):
        node = "0" + "/0" * (index + 1)
        rewards = dict(zip("abc", paid[index].tolist(), strict=True))
        turns.append(
            Turn(index, node, node[:-2] if index else "", f"g{index}", dict.fromkeys(words, 0), {}, words, rewards, {})
        )
    table = make_batch([Episode("made", "0", 0, tuple(turns), "terminated", dict.fromkeys("abc", "p"))])
    value, cost, tokens = drawn(table, 5)
    row = replace(IPPO, credit=algorithm("rae").credit)  # each for its own reward
    boot = torch.zeros_like(table.reward)
    if cut:  # the last turn counts gamma times the value of the state after it
        boot[int(table.step_turn.argmax())] = torch.tensor([0.4, -1.3, 2.2], dtype=torch.float64)
        paid[-1] += gamma * np.array([0.4, -1.3, 2.2])
    options = AlgorithmConfig(discount=gamma, gae_lambda=decay)
    filled = add_advantages(table, row, options, value, cost, bootstrap_values=boot if cut else None, tokens=tokens)
    at = row_at(table)
    for number, agent in enumerate("abc"):
        rows = [at.get((turn.node, agent)) for turn in turns]
        length = [0 if row is None else int(tokens.length[row]) for row in rows]
        parts = [
            (paid[t, number], None if row is None else tokens.value[row, : length[t]].numpy(),
             None if row is None else tokens.kl_cost[row, : length[t]].numpy())
            for t, row in enumerate(rows)
        ]  # fmt: skip
        advantage, start = flat_gae(parts, gamma, decay), 0
        for row, count in zip(rows, length, strict=True):
            if row is not None:
                assert_advantages(filled, tokens, row, advantage[start : start + count])
                start += count
        assert start == len(advantage)


def tree(depth: int, width: int, rng: np.random.Generator, waits: Callable[[str, int], bool]) -> list[Episode]:
    """A full tree of joint steps of two agents with rewards and lengths at random; one episode a leaf."""
    episodes = []

    def grow(node: str, above: tuple[Turn, ...]) -> None:
        if len(above) == depth:
            episodes.append(Episode("made", "0", 0, above, "terminated", dict.fromkeys(SEATS, "p")))
            return
        for lane in range(width):
            words = {s: completion(int(rng.integers(1, 5))) for s in SEATS if not waits(s, len(above))}
            rewards = dict(zip(SEATS, rng.normal(size=2).tolist(), strict=True))
            name, parent = f"{node}/{lane}", above[-1].node if above else ""
            turn = Turn(len(above), name, parent, f"{node}@", dict.fromkeys(words, lane), {}, words, rewards, {})
            grow(name, (*above, turn))

    grow("0", ())
    return episodes


@pytest.mark.parametrize("decay", [0.0, 0.8, 1.0])
def test_a_tree_takes_the_mean_over_children(decay):
    """A = r - c - v + gamma mean(V' + lambda A') at a last token, then back over the tokens; agent b waits once."""
    gamma, rng = 0.9, np.random.default_rng(0)
    table = make_batch(tree(3, 2, rng, lambda seat, turn: seat == "b" and turn == 1))
    value, cost, tokens = drawn(table, 1)
    filled = add_advantages(table, IPPO, AlgorithmConfig(discount=gamma, gae_lambda=decay), value, cost, tokens=tokens)
    at = row_at(table)
    children = {turn.node: [each.node for each in table.steps if each.parent == turn.node] for turn in table.steps}
    paid = {turn.node: np.mean(list(turn.rewards.values())) for turn in table.steps}

    def first(node: str, agent: str) -> tuple[float, float]:
        """What is expected before the step, and by how much more comes; that of every token is compared on the way."""
        behind = [first(child, agent) for child in children[node]] or [(0.0, 0.0)]
        if (node, agent) not in at:
            return paid[node] + gamma * np.mean([v for v, _ in behind]), gamma * np.mean([a for _, a in behind])
        row = at[node, agent]
        count = int(tokens.length[row])
        v, c = (part[row, :count].numpy() for part in (tokens.value, tokens.kl_cost))
        advantage = np.zeros(count)
        advantage[-1] = paid[node] - c[-1] - v[-1] + gamma * np.mean([value + decay * more for value, more in behind])
        for t in reversed(range(count - 1)):
            advantage[t] = -c[t] + v[t + 1] - v[t] + decay * advantage[t + 1]
        assert_advantages(filled, tokens, row, advantage)
        return v[0], advantage[0]

    for agent in SEATS:
        for root in ("0/0", "0/1"):
            first(root, agent)


def test_with_lambda_one_every_token_has_the_discounted_return_less_its_value():
    """Costs from the token on are in it; whatever is expected elsewhere is not."""
    table = make_batch(tree(2, 2, np.random.default_rng(2), lambda *_: False))
    value, cost, tokens = drawn(table, 3)
    settings = AlgorithmConfig(discount=0.5, gae_lambda=1.0)
    whole = add_advantages(table, IPPO, settings, value, cost)
    filled = add_advantages(table, IPPO, settings, value, cost, tokens=tokens)
    assert torch.allclose(filled.returns, whole.returns, atol=1e-12), "the return of the completion is the same"
    for row in range(len(table)):
        for t in range(int(tokens.length[row])):
            expected = whole.returns[row] + tokens.kl_cost[row, :t].sum() - tokens.value[row, t]
            assert float(filled.token_advantage[row, t]) == pytest.approx(float(expected), abs=1e-9)


@pytest.mark.parametrize("how", ["none", "std", "batch", "whiten"])
def test_completions_of_one_token_have_the_numbers_of_the_completion(how):
    episodes = tree(3, 2, np.random.default_rng(6), lambda *_: False)
    short = completion(1)
    episodes = [
        replace(e, turns=tuple(replace(t, completions=dict.fromkeys(t.completions, short)) for t in e.turns))
        for e in episodes
    ]
    table = make_batch(episodes)
    value, cost, tokens = drawn(table, 7)
    settings = AlgorithmConfig(discount=0.9, gae_lambda=0.7, normalize=how)
    one, other = (
        add_advantages(table, IPPO, settings, value, cost),
        add_advantages(table, IPPO, settings, value, cost, tokens=tokens),
    )
    assert torch.equal(one.returns, other.returns)
    assert torch.allclose(one.advantage, other.token_advantage[:, 0], atol=1e-12)
    assert torch.equal(one.returns, other.token_returns[:, 0])


def test_a_crossed_answer_takes_the_mean_of_its_joint_steps():
    """Answers 0 and 1 of two agents, each of two tokens, team rewards 1, 2, 3, 6: a's first ends with 1.5.

    v = 1, .5, lambda .5: A_1 = 1.5 - .5, G_0 = .5 * .5 + .5 * 1.5 = 1, A_0 = 0. Costs .25 and .125: 1.375, .6875.
    """
    paid = {(0, 0): 1.0, (0, 1): 2.0, (1, 0): 3.0, (1, 1): 6.0}
    episodes = []
    for number, ((first, second), reward) in enumerate(paid.items()):
        made = episode("0", number, [(reward, reward)], [dict.fromkeys(SEATS, completion(2))])
        turn = replace(made.turns[0], choice={"a": first, "b": second})
        episodes.append(replace(made, turns=(turn,)))
    table = make_batch(episodes)
    each = torch.tensor([[1.0, 0.5]] * 4, dtype=torch.float64)
    two = torch.full((4,), 2)
    settings = AlgorithmConfig(gae_lambda=0.5)
    free = TokenValues(each, torch.zeros(4, 2, dtype=torch.float64), two)
    filled = add_advantages(table, algorithm("mappo"), settings, each[:, 0], tokens=free)
    first = table.rows_of(["a"])[0]
    assert filled.token_advantage[first].tolist() == [0.0, 1.0]
    paying = replace(free, kl_cost=torch.tensor([[0.25, 0.125]] * 4, dtype=torch.float64))
    filled = add_advantages(table, algorithm("mappo"), settings, each[:, 0], paying.kl_cost.sum(dim=1), tokens=paying)
    assert filled.token_advantage[first].tolist() == [-0.25 + 0.25 + 0.6875 - 1.0, 1.375 - 0.5]
    assert float(filled.returns[first]) == 1.125, "1.5 less both costs"


def test_normalised_advantages_of_tokens():
    """Values 0, lambda 1, rewards 1 and 3: a's tokens 1, 1, 3 and b's 1, 3, 3.

    Whitened over tokens: means 5/3 and 7/3, deviations sqrt(8)/3. By the spread of the returns 1, 3 of a group: 1.
    """
    said = [{"a": completion(2), "b": completion(1)}, {"a": completion(1), "b": completion(2)}]
    table = make_batch([episode("0", lane, [(paid, paid)], [said[lane]]) for lane, paid in enumerate((1.0, 3.0))])
    length = torch.tensor([2, 1, 1, 2])
    zero = torch.zeros(4, 2, dtype=torch.float64)
    tokens = TokenValues(zero, zero, length)
    low, high = -1 / 2**0.5, 2**0.5
    for how, expected in {
        "none": [[1, 1], [1, 0], [3, 0], [3, 3]],
        "std": [[1, 1], [1, 0], [3, 0], [3, 3]],
        "whiten": [[low, low], [-high, 0], [high, 0], [-low, -low]],
    }.items():
        filled = add_advantages(table, IPPO, AlgorithmConfig(gae_lambda=1.0, normalize=how), zero[:, 0], tokens=tokens)
        assert [row.tolist() for row in filled.token_advantage] == [pytest.approx(row) for row in expected]
    wide = replace(table, reward=table.reward * 2)
    filled = add_advantages(wide, IPPO, AlgorithmConfig(gae_lambda=1.0, normalize="std"), zero[:, 0], tokens=tokens)
    assert filled.token_advantage[3].tolist() == [3.0, 3.0], "6 over a spread of 2"


# --- CORY and IPPO ---


def test_cory_and_ippo_give_other_advantages_to_the_same_rollouts():
    """One completion of three tokens, reward 2, values .5, 1, 1.5, costs .1, .2, .3, lambda .5, by hand.

    IPPO: 2 - .6 - .5 = .9 for the whole. CORY: G_2 = 1.7; G_1 = -.2 + .5 * 1.5 + .5 * 1.7 = 1.4;
    G_0 = -.1 + .5 * 1 + .5 * 1.4 = 1.1.
    """
    assert (algorithm("cory").level, algorithm("ippo").level) == ("token", "completion")
    table = make_batch([episode("0", 0, [(2.0,)], [{"a": completion(3)}])])
    each, cost = (torch.tensor([row], dtype=torch.float64) for row in ([0.5, 1.0, 1.5], [0.1, 0.2, 0.3]))
    tokens = TokenValues(each, cost, torch.tensor([3]))
    settings = AlgorithmConfig(gae_lambda=0.5)
    ippo = add_advantages(table, algorithm("ippo"), settings, each[:, 0], cost.sum(dim=1))
    cory = add_advantages(table, algorithm("cory"), settings, each[:, 0], cost.sum(dim=1), tokens=tokens)
    assert token_advantages(ippo, [0], 3)[0].tolist() == pytest.approx([0.9] * 3)
    assert token_advantages(cory, [0], 3)[0].tolist() == pytest.approx([0.6, 0.4, 0.2])
    assert cory.token_returns[0].tolist() == pytest.approx([1.1, 1.4, 1.7])


def test_the_level_is_the_rows_unless_a_key_says_otherwise():
    rows = {name for name in ALGORITHMS if has_token_values(algorithm(name), CriticConfig())}
    assert rows == {"cory"}
    with_critic = {name for name in ALGORITHMS if has_token_values(algorithm(name), CriticConfig(level="token"))}
    assert with_critic == {"iac", "maac", "ippo", "mappo", "happo", "cory"}
    assert not has_token_values(algorithm("cory"), CriticConfig(level="completion"))
    debate = load("maths-debate-ippo")  # MAPoRL's PPO
    assert has_token_values(algorithm(debate.algorithm.name), debate.critic)


# --- what a critic reads and learns ---
