"""Computed parts of the algorithms' pages, `docs/algorithms/*.md`: choices, defaults and a worked example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from pydantic import BaseModel

from docs.build.parts import filled
from palaver.markdown import markdown_table
from palaver.trainers.algorithms.base import ALGORITHMS, Algorithm, algorithm
from palaver.trainers.config.defaults import fill_section
from palaver.trainers.config.kl import KLConfig
from palaver.trainers.config.mixer import MixerConfig
from palaver.trainers.config.preferences import ComparedConfig, PairsConfig, choose
from palaver.trainers.config.run import AlgorithmConfig, CriticConfig, OptimConfig
from palaver.trainers.objectives.advantages import normalize
from palaver.trainers.objectives.alignment import aligned_advantage, past_advantage
from palaver.trainers.objectives.lambda_returns import lambda_returns, whiten
from palaver.trainers.objectives.losses import LossInputs, cispo, ppo_clip
from palaver.trainers.objectives.token_values import TokenValues, token_returns
from palaver.trainers.preferences.dpo import dpo_loss, dpo_slope, row_weights
from palaver.trainers.update.moving_baseline import ema
from palaver.trainers.value_decomposition.mixers import added, monotonic
from palaver.trainers.value_decomposition.targets import counterfactual

FOLDER = Path(__file__).resolve().parents[1] / "algorithms"
SHARED = "policy-gradient"  # page of what all of them share
RETURNS = (0.0, 1.0, 1.0, 2.0)
WON = (1.0, -1.0, 1.0, 1.0)  # returns of consecutive episodes
VALUES = (0.25, 0.25, 1.5, 1.5)  # of two prompts, two samples each
TOKENS = (2.0, (0.5, 1.0, 1.5), (0.1, 0.2, 0.3))  # reward of a completion, values and costs of its tokens
CHAIN = ((0.0, 1.0), (0.3, 0.6), 0.9)  # rewards and values of two turns, discount
CREDITED = ((1.0, 2.0, 3.0), (1.0, 1.0, 1.0))  # advantages of two agents by turn
MARGINS = (-2.0, 0.0, 2.0, 10.0)
BETA = 0.5
RATIOS = (0.5, 0.9, 1.1, 1.5)
CANDIDATES = ((1.0, 2.0, 6.0), (4.0, 0.0))  # values of the answers of two agents
WEIGHTS = (((1.0, -1.0), (0.5, 2.0)), (-4.0, 0.0), (1.0, -0.5), 1.0)  # W1, b1, wf and v of QMIX in some state
SECTIONS: dict[str, type[BaseModel]] = {
    "algorithm": AlgorithmConfig,
    "critic": CriticConfig,
    "kl": KLConfig,
    "optim": OptimConfig,
}


CRITICS = {
    "none": "none",
    "own": "`critic.Critic`, one per policy, on the agent's history",
    "joint": "`critic.Critic`, one for the team, on the joint history",
    "agent": "`moving_baseline.MovingBaseline`, a moving average of each agent's returns, updated by every episode",
}
LEVELS = {"completion": "one of each completion", "token": "one before each token"}
MIXERS: dict[str, Callable[..., torch.Tensor]] = {"sum": added, "monotonic": monotonic}
ORDERS = {
    "together": "all agents update at once",
    "sequence": "sequential, weighted by the earlier agents' ratios",
}


def choices(algorithm: Algorithm) -> str:
    """Table of the algorithm's choices, each with its function and the first line of its docstring."""
    table = {"name": f"`{algorithm.name}`", "paper": algorithm.paper}
    for name, function in (("credit", algorithm.credit), ("baseline", algorithm.baseline), ("loss", algorithm.loss)):
        qualified_name = f"{function.__module__.rpartition('.')[2]}.{getattr(function, '__name__', '')}"
        table[name] = f"`{qualified_name}`: {(function.__doc__ or '').strip().splitlines()[0]}"
    table |= {"critic": CRITICS[algorithm.critic]}
    if algorithm.critic in ("own", "joint"):
        table["values"] = LEVELS[algorithm.level]
    table["order"] = ORDERS[algorithm.order]
    if algorithm.mixer != "none":
        function = MIXERS[algorithm.mixer]
        table["mixer"] = f"`mixers.{function.__name__}`: {(function.__doc__ or '').strip().splitlines()[0]}"
    if algorithm.pairs:
        table["pairs"] = f"`dpo.dpo_loss`: {(dpo_loss.__doc__ or '').strip().splitlines()[0]}"
    table["smallest group"] = "2" if algorithm.needs_group else "1"
    if algorithm.defaults:
        table["the name sets"] = ", ".join(f"`{key}: {_written(value)}`" for key, value in algorithm.defaults.items())
    return markdown_table(("choice", "value"), list(table.items()))


def example(algorithm: Algorithm) -> str:
    """Worked example of an algorithm: advantages, returns over turns, losses by ratio."""
    tables = {"none": [_siblings], "agent": [_episodes]}.get(algorithm.critic, [_errors, _turns])
    if algorithm.level == "token":
        tables = [*tables, _tokens]
    if algorithm.mixer != "none":
        tables = [_mixed, _credited]
    if algorithm.pairs:
        tables = [_margins, _compared]
    if algorithm.aligned:
        tables = [_siblings, _aligned]
    if algorithm.loss in (ppo_clip, cispo):
        tables = [*tables, _ratios]
    return "\n\n".join(table(algorithm) for table in tables)


def _siblings(algorithm: Algorithm) -> str:
    """The advantages of one group of four, under each normalisation."""
    returns, group = torch.tensor(RETURNS, dtype=torch.float64), torch.zeros(len(RETURNS), dtype=torch.long)
    base = algorithm.baseline(returns, group)
    lines = [("return", *_numbers(RETURNS, ""))]
    for how, kind in (("none", "population"), ("std", "population"), ("std", "unbiased")):
        advantage = normalize(base, returns, group, how, kind)  # type: ignore[arg-type]
        label = f"`normalize: {how}`" + (f", `std: {kind}`" if how != "none" else "")
        lines.append((f"advantage, {label}", *_numbers(advantage.tolist())))
    return markdown_table(("", *(f"sample {n}" for n in range(1, len(RETURNS) + 1))), lines)


def _aligned(algorithm: Algorithm) -> str:  # noqa: ARG001 - every table has the same argument
    """Advantages of two agents in a chain of three turns, aligned."""
    advantage = torch.tensor(CREDITED, dtype=torch.float64).T
    parent, turn = torch.tensor([-1, 0, 1]), torch.tensor([0, 1, 2])
    lines = [("A of agent 1", *_numbers(CREDITED[0])), ("A of agent 2", *_numbers(CREDITED[1]))]
    for discount, beta in ((1.0, 1.0), (0.5, 2.0)):
        label = f"`discount: {discount:g}`, `beta: {beta:g}`"
        past = past_advantage(advantage, parent, turn, discount)[:, 0]
        aligned = aligned_advantage(advantage, parent, turn, discount, beta)[:, 0]
        lines.append((f"w of agent 1, {label}", *_numbers(past.tolist())))
        lines.append((f"A* of agent 1, {label}", *_numbers(aligned.tolist())))
    return markdown_table(("", "turn 1", "turn 2", "turn 3"), lines)


def _errors(algorithm: Algorithm) -> str:
    """The advantages of two prompts with two samples each, with values of a critic."""
    returns, value = torch.tensor(RETURNS, dtype=torch.float64), torch.tensor(VALUES, dtype=torch.float64)
    advantage = algorithm.baseline(returns, value)
    whitened = whiten(advantage, torch.zeros(len(RETURNS), dtype=torch.long), groups=1)
    head = ("", *(f"prompt {n // 2 + 1}, sample {n % 2 + 1}" for n in range(len(RETURNS))))
    return markdown_table(
        head,
        [
            ("return", *_numbers(RETURNS, "")),
            ("value", *_numbers(VALUES, "")),
            ("advantage, `normalize: none`", *_numbers(advantage.tolist())),
            ("advantage, `normalize: whiten`", *_numbers(whitened.tolist())),
        ],
    )


def _turns(algorithm: Algorithm) -> str:
    """Returns and advantages of a conversation of two turns by lambda."""
    rewards, values, discount = CHAIN
    reward, value = (torch.tensor(column, dtype=torch.float64)[:, None] for column in (rewards, values))
    lines = [("reward", *_numbers(rewards, "")), ("value", *_numbers(values, ""))]
    for decay in (0.0, 0.95, 1.0):
        returns = lambda_returns(reward, value, torch.tensor([-1, 0]), torch.tensor([0, 1]), discount, decay)
        label = f"`gae_lambda: {decay:g}`"
        lines.append((f"return, {label}", *_numbers(returns[:, 0].tolist(), "")))
        lines.append((f"advantage, {label}", *_numbers(algorithm.baseline(returns[:, 0], value[:, 0]).tolist())))
    return markdown_table((f"`discount: {discount:g}`", "turn 1", "turn 2"), lines)


def _tokens(algorithm: Algorithm) -> str:
    """Returns and advantages of the tokens of one completion by lambda."""
    reward, values, costs = TOKENS
    value, cost = (torch.tensor([column], dtype=torch.float64) for column in (values, costs))
    tokens = TokenValues(value, cost, torch.tensor([len(values)]))
    last = torch.tensor([reward - costs[-1]], dtype=torch.float64)
    lines = [("value", *_numbers(values, "")), ("cost", *_numbers(costs, ""))]
    for decay in (0.0, 0.95, 1.0):
        returns = token_returns(tokens, last, decay)
        label = f"`gae_lambda: {decay:g}`"
        lines.append((f"return, {label}", *_numbers(returns[0].tolist(), "")))
        lines.append((f"advantage, {label}", *_numbers(algorithm.baseline(returns[0], value[0]).tolist())))
    head = (f"last turn, reward {reward:g}", *(f"token {n}" for n in range(1, len(values) + 1)))
    return markdown_table(head, lines)


def _episodes(algorithm: Algorithm) -> str:
    """The advantages of an agent's episodes of one step, while its moving mean moves."""
    decay, mean, before = AlgorithmConfig().decay, 0.0, []
    for won in WON:
        before.append(mean)
        mean = ema(mean, won, decay)
    advantage = algorithm.baseline(torch.tensor(WON, dtype=torch.float64), torch.tensor(before, dtype=torch.float64))
    head = (f"`decay: {decay:g}`", *(f"episode {n}" for n in range(1, len(WON) + 1)))
    lines = [("return", WON), ("mean before it", before), ("advantage", advantage.tolist())]
    return markdown_table(head, [(name, *(f"{value:.6g}" for value in numbers)) for name, numbers in lines])


def _mix(algorithm: Algorithm, q: torch.Tensor) -> torch.Tensor:
    """(J, N) values to those of the joint actions (J,), by the weights of one state."""
    if algorithm.mixer == "sum":
        return added(q)
    w1, b1, wf, v = (
        torch.tensor(weights, dtype=q.dtype)[None].expand(len(q), *torch.tensor(weights).shape) for weights in WEIGHTS
    )
    return monotonic(q, w1, b1, wf, v)


def _mixed(algorithm: Algorithm) -> str:
    """The team's value of every joint action."""
    lines = []
    for a in CANDIDATES[0]:
        q = torch.tensor([[a, b] for b in CANDIDATES[1]], dtype=torch.float64)
        lines.append((f"a's answer, Q = {a:g}", *_numbers(_mix(algorithm, q).tolist(), "")))
    return markdown_table(("Q_tot", *(f"b's answer, Q = {b:g}" for b in CANDIDATES[1])), lines)


def _credited(algorithm: Algorithm) -> str:
    """Credit of each answer in some joint actions."""
    wide = max(map(len, CANDIDATES))
    q = torch.tensor(
        [[*candidate_values, *[0.0] * (wide - len(candidate_values))] for candidate_values in CANDIDATES],
        dtype=torch.float64,
    )
    allowed = torch.tensor(
        [[index < len(candidate_values) for index in range(wide)] for candidate_values in CANDIDATES]
    )
    lines = []
    for joint in ((0, 0), (2, 0), (2, 1)):
        chosen_values = torch.tensor(
            [[candidate_values[index] for candidate_values, index in zip(CANDIDATES, joint, strict=True)]],
            dtype=torch.float64,
        )
        given = counterfactual(
            q[None], allowed[None], torch.tensor([joint]), torch.zeros(1, 1), lambda values, _: _mix(algorithm, values)
        )
        total = _numbers(_mix(algorithm, chosen_values).tolist(), "")
        lines.append((f"Q = {chosen_values[0, 0]:g} and {chosen_values[0, 1]:g}", *total, *_numbers(given[0].tolist())))
    return markdown_table(("joint action", "Q_tot", "credit of a", "credit of b"), lines)


def _ratios(algorithm: Algorithm) -> str:
    """Loss of a token and its gradient by the importance ratio."""
    logp = torch.tensor(RATIOS, dtype=torch.float64).log()[None].requires_grad_()
    mask, clip = torch.ones_like(logp, dtype=torch.bool), AlgorithmConfig(name=algorithm.name).clip
    lines = []
    for advantage in (1.0, -1.0):
        inputs = LossInputs(torch.full_like(logp, advantage), torch.zeros_like(logp), mask, clip=clip)
        loss = algorithm.loss(logp, inputs)
        (slope,) = torch.autograd.grad(loss.sum(), logp)
        lines.append((f"loss, advantage {advantage:+g}", *_numbers(loss[0].tolist())))
        lines.append((f"its gradient by the log-prob, advantage {advantage:+g}", *_numbers(slope[0].tolist())))
    return markdown_table((f"`clip: [{clip[0]:g}, {clip[1]:g}]`", *(f"ratio {ratio:.2f}" for ratio in RATIOS)), lines)


def _margins(algorithm: Algorithm) -> str:  # noqa: ARG001 - every table has the same argument
    """Loss of a pair and its negative slope by the margin."""
    margin = torch.tensor(MARGINS, dtype=torch.float64)
    return markdown_table(
        (f"`kl.coef: {BETA:g}`", *(f"h = {value:g}" for value in MARGINS)),
        [
            ("loss of the pair", *_numbers(dpo_loss(margin, BETA).tolist(), "")),
            ("gain from a larger h", *_numbers(dpo_slope(margin, BETA).tolist(), "")),
        ],
    )


def _compared(algorithm: Algorithm) -> str:  # noqa: ARG001 - see above
    """Weights of four completions of an agent at the start of a run, by pairs.

    All margins are 0 there.
    """
    lines = [("return", *_numbers(RETURNS, ""))]
    indices = torch.arange(len(RETURNS))
    for select in ("all", "extremes"):
        pairs = choose(RETURNS, PairsConfig.model_validate({"select": select}), 0)
        better, worse = torch.tensor(pairs).T
        slope = dpo_slope(torch.zeros(len(pairs), dtype=torch.float64), BETA)
        weight = row_weights(slope, better, worse, indices, indices, len(RETURNS))
        scaled = (weight * len(RETURNS) / len(pairs)).tolist()
        lines.append((f"weight, `pairs.select: {select}`", *_numbers(scaled)))
    return markdown_table(("", *(f"sample {n}" for n in range(1, len(RETURNS) + 1))), lines)


def _numbers(values: Sequence[float], sign: str = "+") -> list[str]:
    return [f"{value + 0.0:{sign}.2f}" for value in values]


def keys(algorithm: Algorithm | None) -> str:
    """Every key of the sections that shape the estimator, with its default.

    Critics' only where there is one.
    """
    lines = []
    has_critic = algorithm is None or algorithm.critic in ("own", "joint")
    for section, model in SECTIONS.items():
        if section == "critic" and not has_critic:
            continue
        section_config = model.model_validate(fill_section(algorithm.name, section, {}) if algorithm else {})
        for name, field in model.model_fields.items():
            if name not in ("name", "mixer", "pairs"):
                default = _written(getattr(section_config, name))
                lines.append((f"`{section}.{name}`", f"`{default}`", field.description or ""))
    for name, field in MixerConfig.model_fields.items() if algorithm and algorithm.mixer != "none" else ():
        default = _written(getattr(MixerConfig(), name))
        lines.append((f"`algorithm.mixer.{name}`", f"`{default}`", field.description or ""))
    for name, field in ComparedConfig.model_fields.items() if algorithm and algorithm.pairs else ():
        default = _written(getattr(ComparedConfig(), name))
        lines.append((f"`algorithm.pairs.{name}`", f"`{default}`", field.description or ""))
    return markdown_table(("key", "default", "meaning"), lines)


def _written(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else "null" if value is None else str(value)


def wanted() -> dict[Path, str]:
    """Return the pages with their computed parts updated."""
    return {path: page(path) for path in (FOLDER / f"{name}.md" for name in (*ALGORITHMS, SHARED))}


def page(path: Path) -> str:
    """Return the page of an algorithm, or one that several share, with its computed parts updated."""
    about = algorithm(path.stem) if path.stem in ALGORITHMS else None
    parts = {"keys": keys(about)}
    if about:
        parts |= {"row": choices(about), "example": example(about)}
    return filled(path.read_text(encoding="utf-8"), parts)
