"""Checks for contradictory settings, before anything is loaded; each error says what to do."""

from __future__ import annotations

from collections.abc import Collection

from palaver.core import ConfigError
from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import RunConfig
from palaver.trainers.objectives.losses import ppo_clip, reinforce
from palaver.trainers.objectives.returns import shared_reward
from palaver.trainers.run.memory import most_rows


def refuse_contradictions(
    config: RunConfig,
    row: Algorithm,
    agents: int,
    turns: int,
    alike: Collection[int] | None = None,
    zero_sum: bool = False,
    at_once: bool = False,
) -> None:
    """Refuse settings that cannot work or give no gradient.

    Settings that the algorithm ignores are not checked.

    Args:
        config: config of the run.
        row: its algorithm.
        agents: number of agents of the team.
        turns: turns of an episode.
        alike: turns at which an agent's prompt is the same in every episode of a task; None: not known.
        zero_sum: True if the sum of the agents' rewards is constant.
        at_once: True if all agents act in the first turn.

    Raises:
        ConfigError: two settings contradict each other.
    """
    sharing = agents - len(config.team.frozen) if config.team.kind == "shared" else 1
    rows = most_rows(config, sharing, agents, turns)
    apart = alike is not None and not set(range(turns)) <= set(alike)
    reasons = [*_alone(row, agents - len(config.team.frozen)), *_competitive_team_credit(config, row, zero_sum)]
    reasons += [*_in_turn(config, row, at_once), *_resample(config, row), *_overlong(config, row)]
    reasons += _mixing(config, row, turns) if row.mixer != "none" else []
    if row.mixer == "none" or config.algorithm.mixer.actions == "sentences":
        reasons += [*_sampling(config, row, turns, rows), *_truncation(config, row), *_grouping(config, row, apart)]
        reasons += [*_ratios(config, row), *_values(config, row), *_pull(config, rows)]
    reasons += _pairs(config, row, turns) if row.pairs else []
    reasons += _alternatives(config, row, turns)
    for reason in reasons:
        raise ConfigError(reason)


def _mixing(config: RunConfig, row: Algorithm, turns: int) -> list[str]:
    """Value decomposition: action values and mixer."""
    mixer, found = config.algorithm.mixer, []
    if row.credit is not shared_reward:
        found.append(
            f"the mixer of {row.name} learns what the team is paid, and finds out who earned it: set "
            "algorithm.credit=team, or auto"
        )
    if mixer.batch > mixer.buffer:
        found.append(
            f"algorithm.mixer.batch={mixer.batch} is more than algorithm.mixer.buffer={mixer.buffer} holds, so that "
            "nothing would ever be learnt: lower the one or raise the other"
        )
    alone = config.algorithm.turns == "independent" and turns > 1
    if mixer.actions == "sentences" and mixer.credit == "counterfactual" and alone:
        found.append(
            "algorithm.turns=independent has one candidate for each agent after the first turn, and "
            f"{row.name} nothing to compare it with there: set algorithm.turns=tree, or algorithm.mixer.credit=value"
        )
    return found


def _alternatives(config: RunConfig, row: Algorithm, turns: int) -> list[str]:
    """Alternatives of one agent, compared while the other agents' texts are fixed."""
    a = config.algorithm
    if a.turns not in ("by_agent", "counterfactual"):
        return []
    how, found = f"algorithm.turns={a.turns}", []
    if not row.needs_group or row.pairs or row.mixer != "none":
        found.append(
            f"{how} compares the candidates of one agent, and {row.name} compares no such candidates: set "
            "algorithm.turns=tree, or algorithm.name to c3 or atgrpo"
        )
    if a.joint == "cross":
        found.append(f"{how} freezes the other agents' texts, so that none are crossed: set algorithm.joint=aligned")
    if a.turns == "counterfactual" and a.stop_above is not None:
        found.append(f"{how} compares whole episodes, and algorithm.stop_above ends some of them: set it to null")
    if a.turns == "counterfactual" and config.kl.coef > 0 and config.kl.place == "reward" and turns > 1:
        found.append(
            f"{how} samples the later turns of alternatives without training on them, so that their pull is not known: "
            "set kl.place to loss or advantage"
        )
    return found


def _sampling(config: RunConfig, row: Algorithm, turns: int, rows: int) -> list[str]:
    """Sampling, group size and minibatches."""
    a, found = config.algorithm, []
    if row.needs_group and a.group_size < 2:
        found.append(
            f"{row.name} compares a sample with its siblings: algorithm.group_size must be 2 or more, "
            f"got {a.group_size}"
        )
    if config.policy.temperature == 0:
        found.append("policy.temperature=0 samples the same text G times and teaches nothing; set it above 0")
    if a.turns in ("best", "by_agent") and a.discount > 0 and turns > 1:
        found.append(
            f"algorithm.turns={a.turns} goes on from one sibling alone, so none else can be credited with later turns: "
            "set algorithm.discount=0, or algorithm.turns=tree"
        )
    if a.minibatches > rows:
        found.append(
            f"algorithm.minibatches={a.minibatches} is more than the {rows} completions that a step has at most for a "
            f"policy; lower it, or raise train.prompts_per_step or algorithm.group_size"
        )
    return found


def _truncation(config: RunConfig, row: Algorithm) -> list[str]:
    """Sampling from a truncated distribution (top-p, top-k)."""
    a = config.algorithm
    sections = {"policy": config.policy} | {f"team.agents.{seat}": config.agent(seat) for seat in config.team.agents}
    cut = [(section, policy) for section, policy in sections.items() if policy.sampling().truncated]
    if not cut:
        return []
    section, policy = cut[0]
    how = f"{section}.top_p={policy.top_p:g}" if policy.top_p < 1 else f"{section}.top_k={policy.top_k}"
    if not config.policy.score_truncated:
        return [
            f"{how} samples from a part of the vocabulary, and log-probabilities over all of it belong to another "
            "policy: set top_p=1 and top_k=0, or policy.score_truncated=true to train on those of the part"
        ]
    if row.pairs or row.order == "sequence" or max(a.epochs, a.minibatches) > 1:
        return [
            f"{how} with policy.score_truncated needs the weights that sampled, and {row.name} scores texts with later "
            "ones too: set top_p=1 and top_k=0, or an algorithm that updates all agents together, with "
            "algorithm.epochs=1 and algorithm.minibatches=1"
        ]
    return []


def _pairs(config: RunConfig, row: Algorithm, turns: int) -> list[str]:
    """Preference pairs of joint actions."""
    a, kl, found = config.algorithm, config.kl, []
    if kl.coef == 0:
        found.append(f"beta of {row.name} is kl.coef, and with 0 the pairs teach nothing: set kl.coef above 0, as 0.1")
    if kl.place != "loss" or kl.target is not None:
        found.append(
            f"{row.name} has the pull to the reference in its own loss: leave kl.place and kl.target at their defaults"
        )
    if max(a.epochs, a.minibatches) > 1:
        found.append(
            f"{row.name} weighs each pair by the weights as they are, and that once a step: set algorithm.epochs and "
            "algorithm.minibatches to 1, and train.steps higher"
        )
    if a.aggregate != "sum" or a.normalize != "none":
        found.append(
            f"{row.name} compares log-probabilities of whole texts: set algorithm.aggregate=sum and "
            "algorithm.normalize=none"
        )
    if row.loss is not reinforce or row.credit is not shared_reward:
        found.append(f"{row.name} has its own loss and compares teams: leave algorithm.surrogate and algorithm.credit")
    if a.turns == "independent" and turns > 1:
        found.append(
            f"{row.name} compares answers to one prompt, and later ones differ in chains: set algorithm.turns=tree"
        )
    return found


def _grouping(config: RunConfig, row: Algorithm, apart: bool) -> list[str]:
    """Groups of comparable answers, if later prompts depend on earlier completions."""
    a = config.algorithm
    if apart and row.needs_group and a.turns == "independent" and a.group_by == "prompt":
        return [
            f"{row.name} compares answers to one prompt, but in this workflow later prompts differ between episodes: "
            "set algorithm.turns=tree, or algorithm.group_by=agent to compare over the whole task (Dr. MAS)"
        ]
    return []


def _ratios(config: RunConfig, row: Algorithm) -> list[str]:
    """Importance ratios and HAPPO's factor."""
    a, found = config.algorithm, []
    if row.order == "sequence" and not row.pairs and a.joint == "cross":
        found.append(
            f"{row.name} weighs each joint action by its own factor, but algorithm.joint=cross makes one row of all "
            f"that a completion is in: set algorithm.joint=aligned"
        )
    if row.order == "sequence" and not row.pairs and config.team.kind == "shared":
        found.append(
            f"{row.name} moves one policy after the other, and with team.kind=shared there is one for all agents "
            "and no factor: set team.kind=separate (or lora), or algorithm.name=mappo, which is what would be left"
        )
    if row.loss is ppo_clip and a.ratio == "sequence" and a.aggregate != "mean":
        found.append(
            "algorithm.ratio=sequence gives every token the gradient of its whole completion, so that only their mean "
            "counts a completion once: set algorithm.aggregate=mean, or algorithm.ratio to token or turn"
        )
    if row.loss is reinforce and max(a.epochs, a.minibatches) > 1 and a.truncate is None:
        found.append(
            f"{row.name} takes all samples for fresh, but with several algorithm.epochs or algorithm.minibatches most "
            "are older than the weights: set algorithm.truncate=2, algorithm.surrogate to clip or cispo, or both to 1"
        )
    return found


def _alone(row: Algorithm, trained: int) -> list[str]:
    """Single-agent algorithms with a team."""
    if not row.alone or trained == 1:
        return []
    return [
        f"{row.name} is for one trained agent, and this team trains {trained}: set algorithm.name to magrpo or drmas, "
        "which are for teams, or name partners in team.frozen until one agent is left"
    ]


def _in_turn(config: RunConfig, row: Algorithm, at_once: bool) -> list[str]:
    """Sequential algorithms in environments where all agents act at once."""
    if not row.in_turn or not at_once:
        return []
    return [
        f"in {row.name} one agent answers knowing what another has said, but in {config.env.id} all act at once: set "
        "env.id=pioneer-v0, or algorithm.name=ippo with critic.level=token, which is what would be left"
    ]


def _resample(config: RunConfig, row: Algorithm) -> list[str]:
    """Dynamic sampling with algorithms that do not compare siblings."""
    if not config.algorithm.resample or (row.needs_group and row.mixer == "none" and not row.pairs):
        return []
    return [
        f"algorithm.resample replaces tasks whose samples all return the same, but {row.name} takes no advantage from "
        "comparing samples of one task: set algorithm.resample=0"
    ]


def _overlong(config: RunConfig, row: Algorithm) -> list[str]:
    """Length penalties that would hit every text, or no agent."""
    cache, most = config.algorithm.overlong, min(config.agent(seat).max_tokens for seat in ["", *config.team.agents])
    if cache > most:
        return [
            f"algorithm.overlong={cache} is more than the {most} tokens that a text may have, so that every text would "
            "be punished: set it to a part of policy.max_tokens"
        ]
    if cache and (row.mixer != "none" or row.pairs):
        return [
            f"algorithm.overlong is taken from what each agent answers for, and {row.name} learns from the team's "
            "rewards: set algorithm.overlong=0"
        ]
    return []


def _competitive_team_credit(config: RunConfig, row: Algorithm, zero_sum: bool) -> list[str]:
    """Team credit in zero-sum environments, where the team's reward is constant."""
    if not zero_sum or row.credit is not shared_reward:
        return []
    other = "algorithm.credit=own, or " if row.critic != "joint" and row.mixer == "none" and not row.pairs else ""
    return [
        f"{config.env.id} is zero-sum here: the mean reward of its agents is the same for every outcome, and "
        f"{row.name}, which credits every agent with it, learns nothing of the game: set {other}algorithm.name=rae"
    ]


def _values(config: RunConfig, row: Algorithm) -> list[str]:
    """Critics, credit and normalisation."""
    found = []
    if row.critic == "joint" and row.credit is not shared_reward:
        found.append(
            f"the critic of {row.name} expects what the team is paid, and no agent can be judged by that for its own: "
            "set algorithm.credit=team, or take an algorithm whose critics are the agents' own"
        )
    if config.algorithm.normalize == "whiten" and row.needs_group:
        found.append(
            f"algorithm.normalize=whiten shifts and scales advantages, and with that all that tells {row.name} from "
            "others that compare siblings may be gone; set it to none, std or batch"
        )
    if config.critic.model == "shared" and row.critic == "joint":
        found.append(
            f"the critic of {row.name} is one for the team and can share the trunk of no agent's policy: "
            "set critic.model=separate"
        )
    if config.algorithm.normalize == "whiten" and row.critic == "agent":
        found.append(
            f"algorithm.normalize=whiten takes the mean of each agent's advantages away, and with it the baseline of "
            f"{row.name}; set it to none, std or batch"
        )
    return found


def _pull(config: RunConfig, rows: int) -> list[str]:
    """KL penalty and reference."""
    kl, found = config.kl, []
    if kl.coef > 0 and kl.place == "loss" and kl.estimator == "k1":
        found.append(
            "kl.estimator=k1 in the loss has a gradient of mean 0 and teaches nothing: "
            "set kl.estimator to k2 or k3, or kl.place to reward or advantage"
        )
    kind, _ = kl.named
    if kl.coef > 0 and kind in ("base", "adapter") and config.team.kind != "lora":
        found.append(
            f"kl.reference={kind} is a matter of adapters, and team.kind={config.team.kind} has none: "
            "set kl.reference=start (or model:NAME_OR_FOLDER), or team.kind=lora"
        )
    if kl.target is not None and kl.coef == 0:
        found.append("kl.target moves the weight of a pull, and kl.coef=0 is none: set kl.coef to where it shall begin")
    if kl.target is not None and kl.horizon < rows:
        found.append(
            f"kl.horizon={kl.horizon} is less than the {rows} completions that a step has at most for a policy, so "
            f"that one step could turn the pull around: raise it to some times {rows}"
        )
    return found
