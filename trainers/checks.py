"""Checks for contradictory settings, before anything is loaded; each error says what to do."""

from __future__ import annotations

from collections.abc import Collection

from palaver.core import ConfigError
from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import RunConfig
from palaver.trainers.objectives.advantages import shared_reward
from palaver.trainers.objectives.losses import ppo_clip, reinforce
from palaver.trainers.run.memory import most_rows


def refuse_contradictions(
    config: RunConfig,
    algorithm: Algorithm,
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
        algorithm: its algorithm.
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
    prompts_differ = alike is not None and not set(range(turns)) <= set(alike)
    reasons = [
        *_alone(algorithm, agents - len(config.team.frozen)),
        *_competitive_team_credit(config, algorithm, zero_sum),
    ]
    reasons += [*_in_turn(config, algorithm, at_once), *_resample(config, algorithm), *_overlong(config, algorithm)]
    reasons += _mixing(config, algorithm, turns) if algorithm.mixer != "none" else []
    if algorithm.mixer == "none" or config.algorithm.mixer.actions == "sentences":
        reasons += [
            *_sampling(config, algorithm, turns, rows),
            *_truncation(config, algorithm),
            *_grouping(config, algorithm, prompts_differ),
        ]
        reasons += [*_ratios(config, algorithm), *_values(config, algorithm), *_kl_penalty(config, rows)]
    reasons += _pairs(config, algorithm, turns) if algorithm.pairs else []
    reasons += _alternatives(config, algorithm, turns)
    for reason in reasons:
        raise ConfigError(reason)


def _mixing(config: RunConfig, algorithm: Algorithm, turns: int) -> list[str]:
    """Value decomposition: action values and mixer."""
    mixer, reasons = config.algorithm.mixer, []
    if algorithm.credit is not shared_reward:
        reasons.append(
            f"the mixer of {algorithm.name} decomposes the reward of the team: set algorithm.credit=team, or auto"
        )
    if mixer.batch > mixer.buffer:
        reasons.append(
            f"algorithm.mixer.batch={mixer.batch} is more than algorithm.mixer.buffer={mixer.buffer} holds, so that "
            "nothing would ever be learnt: lower the one or raise the other"
        )
    alone = config.algorithm.turns == "independent" and turns > 1
    if mixer.actions == "sentences" and mixer.credit == "counterfactual" and alone:
        reasons.append(
            "algorithm.turns=independent has one candidate for each agent after the first turn, and "
            f"{algorithm.name} nothing to compare it with there: set algorithm.turns=tree, or "
            "algorithm.mixer.credit=value"
        )
    return reasons


def _alternatives(config: RunConfig, algorithm: Algorithm, turns: int) -> list[str]:
    """Alternatives of one agent, compared while the other agents' texts are fixed."""
    a = config.algorithm
    if a.turns not in ("by_agent", "counterfactual"):
        return []
    how, reasons = f"algorithm.turns={a.turns}", []
    if not algorithm.needs_group or algorithm.pairs or algorithm.mixer != "none":
        reasons.append(
            f"{how} compares the candidates of one agent, and {algorithm.name} compares no such candidates: set "
            "algorithm.turns=tree, or algorithm.name to c3 or atgrpo"
        )
    if a.joint == "cross":
        reasons.append(f"{how} freezes the other agents' texts, so that none are crossed: set algorithm.joint=aligned")
    if a.turns == "counterfactual" and a.stop_above is not None:
        reasons.append(f"{how} compares whole episodes, and algorithm.stop_above ends some of them: set it to null")
    if a.turns == "counterfactual" and config.kl.coef > 0 and config.kl.place == "reward" and turns > 1:
        reasons.append(
            f"{how} samples the later turns of alternatives without training on them, so that their pull is not known: "
            "set kl.place to loss or advantage"
        )
    return reasons


def _sampling(config: RunConfig, algorithm: Algorithm, turns: int, rows: int) -> list[str]:
    """Sampling, group size and minibatches."""
    a, reasons = config.algorithm, []
    if algorithm.needs_group and a.group_size < 2:
        reasons.append(
            f"{algorithm.name} compares a sample with its siblings: algorithm.group_size must be 2 or more, "
            f"got {a.group_size}"
        )
    if config.policy.temperature == 0:
        reasons.append("policy.temperature=0 samples the same text G times and teaches nothing; set it above 0")
    if a.turns in ("best", "by_agent") and a.discount > 0 and turns > 1:
        reasons.append(
            f"algorithm.turns={a.turns} continues one sibling alone, so no other can be credited with later turns: "
            "set algorithm.discount=0, or algorithm.turns=tree"
        )
    if a.minibatches > rows:
        reasons.append(
            f"algorithm.minibatches={a.minibatches} is more than the {rows} completions that a step has at most for a "
            f"policy; lower it, or raise train.prompts_per_step or algorithm.group_size"
        )
    return reasons


def _truncation(config: RunConfig, algorithm: Algorithm) -> list[str]:
    """Sampling from a truncated distribution (top-p, top-k)."""
    a = config.algorithm
    sections = {"policy": config.policy} | {f"team.agents.{agent}": config.agent(agent) for agent in config.team.agents}
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
    if algorithm.pairs or algorithm.order == "sequence" or max(a.epochs, a.minibatches) > 1:
        return [
            f"{how} with policy.score_truncated needs the weights that sampled, and {algorithm.name} scores texts with "
            "later ones too: set top_p=1 and top_k=0, or an algorithm that updates all agents together, with "
            "algorithm.epochs=1 and algorithm.minibatches=1"
        ]
    return []


def _pairs(config: RunConfig, algorithm: Algorithm, turns: int) -> list[str]:
    """Preference pairs of joint actions."""
    a, kl, reasons = config.algorithm, config.kl, []
    if kl.coef == 0:
        reasons.append(
            f"beta of {algorithm.name} is kl.coef, and with 0 the pairs teach nothing: set kl.coef above 0, as 0.1"
        )
    if kl.place != "loss" or kl.target is not None:
        reasons.append(
            f"{algorithm.name} has the pull to the reference in its own loss: leave kl.place and kl.target at their "
            "defaults"
        )
    if max(a.epochs, a.minibatches) > 1:
        reasons.append(
            f"{algorithm.name} weighs each pair by the weights as they are, and that once a step: set algorithm.epochs "
            "and algorithm.minibatches to 1, and train.steps higher"
        )
    if a.aggregate != "sum" or a.normalize != "none":
        reasons.append(
            f"{algorithm.name} compares log-probabilities of whole texts: set algorithm.aggregate=sum and "
            "algorithm.normalize=none"
        )
    if algorithm.loss is not reinforce or algorithm.credit is not shared_reward:
        reasons.append(
            f"{algorithm.name} has its own loss and compares teams: leave algorithm.surrogate and algorithm.credit"
        )
    if a.turns == "independent" and turns > 1:
        reasons.append(
            f"{algorithm.name} compares answers to one prompt, and later ones differ in chains: set "
            "algorithm.turns=tree"
        )
    return reasons


def _grouping(config: RunConfig, algorithm: Algorithm, prompts_differ: bool) -> list[str]:
    """Groups of comparable answers, if later prompts depend on earlier completions."""
    a = config.algorithm
    if prompts_differ and algorithm.needs_group and a.turns == "independent" and a.group_by == "prompt":
        return [
            f"{algorithm.name} compares answers to one prompt, but in this workflow later prompts differ between "
            "episodes: set algorithm.turns=tree, or algorithm.group_by=agent to compare over the whole task (Dr. MAS)"
        ]
    return []


def _ratios(config: RunConfig, algorithm: Algorithm) -> list[str]:
    """Importance ratios and HAPPO's factor."""
    a, reasons = config.algorithm, []
    if algorithm.order == "sequence" and not algorithm.pairs and a.joint == "cross":
        reasons.append(
            f"{algorithm.name} weighs each joint action by its own factor, but algorithm.joint=cross makes one row of "
            f"all that a completion is in: set algorithm.joint=aligned"
        )
    if algorithm.order == "sequence" and not algorithm.pairs and config.team.kind == "shared":
        reasons.append(
            f"{algorithm.name} moves one policy after the other, and with team.kind=shared there is one for all agents "
            "and no factor: set team.kind=separate (or lora), or algorithm.name=mappo, which is the same without that"
        )
    if algorithm.loss is ppo_clip and a.ratio == "sequence" and a.aggregate != "mean":
        reasons.append(
            "algorithm.ratio=sequence gives every token the gradient of its whole completion, so that only their mean "
            "counts a completion once: set algorithm.aggregate=mean, or algorithm.ratio to token or turn"
        )
    if algorithm.loss is reinforce and max(a.epochs, a.minibatches) > 1 and a.truncate is None:
        reasons.append(
            f"{algorithm.name} takes all samples for fresh, but with several algorithm.epochs or algorithm.minibatches "
            "most are older than the weights: set algorithm.truncate=2, algorithm.surrogate to clip or cispo, or both "
            "to 1"
        )
    return reasons


def _alone(algorithm: Algorithm, trained: int) -> list[str]:
    """Single-agent algorithms with a team."""
    if not algorithm.alone or trained == 1:
        return []
    return [
        f"{algorithm.name} is for one trained agent, and this team trains {trained}: set algorithm.name to magrpo or "
        "drmas, which are for teams, or name partners in team.frozen until one agent is left"
    ]


def _in_turn(config: RunConfig, algorithm: Algorithm, at_once: bool) -> list[str]:
    """Sequential algorithms in environments where all agents act at once."""
    if not algorithm.in_turn or not at_once:
        return []
    return [
        f"in {algorithm.name} one agent answers knowing the answer of another, but in {config.env.id} all act at once: "
        "set env.id=pioneer-v0, or algorithm.name=ippo with critic.level=token, which is the same without that"
    ]


def _resample(config: RunConfig, algorithm: Algorithm) -> list[str]:
    """Dynamic sampling with algorithms that do not compare siblings."""
    if not config.algorithm.resample or (algorithm.needs_group and algorithm.mixer == "none" and not algorithm.pairs):
        return []
    return [
        f"algorithm.resample replaces tasks whose samples all return the same, but {algorithm.name} takes no advantage "
        "from comparing samples of one task: set algorithm.resample=0"
    ]


def _overlong(config: RunConfig, algorithm: Algorithm) -> list[str]:
    """Length penalties that would hit every text, or no agent."""
    cache = config.algorithm.overlong
    max_tokens = min(config.agent(agent).max_tokens for agent in ["", *config.team.agents])
    if cache > max_tokens:
        return [
            f"algorithm.overlong={cache} is more than the {max_tokens} tokens that a text may have, so that every text "
            "would be punished: set it to a part of policy.max_tokens"
        ]
    if cache and (algorithm.mixer != "none" or algorithm.pairs):
        return [
            f"algorithm.overlong is taken from what each agent answers for, and {algorithm.name} learns from the "
            "team's rewards: set algorithm.overlong=0"
        ]
    return []


def _competitive_team_credit(config: RunConfig, algorithm: Algorithm, zero_sum: bool) -> list[str]:
    """Team credit in zero-sum environments, where the team's reward is constant."""
    if not zero_sum or algorithm.credit is not shared_reward:
        return []
    alternative = (
        "algorithm.credit=own, or "
        if algorithm.critic != "joint" and algorithm.mixer == "none" and not algorithm.pairs
        else ""
    )
    return [
        f"{config.env.id} is zero-sum here: the mean reward of its agents is the same for every outcome, and "
        f"{algorithm.name}, which credits every agent with it, learns nothing of the game: set "
        f"{alternative}algorithm.name=rae"
    ]


def _values(config: RunConfig, algorithm: Algorithm) -> list[str]:
    """Critics, credit and normalisation."""
    reasons = []
    if algorithm.critic == "joint" and algorithm.credit is not shared_reward:
        reasons.append(
            f"the critic of {algorithm.name} estimates the return of the team, not of one agent: "
            "set algorithm.credit=team, or take an algorithm whose critics are the agents' own"
        )
    if config.algorithm.normalize == "whiten" and algorithm.needs_group:
        reasons.append(
            f"algorithm.normalize=whiten shifts and scales advantages, and with that all that tells {algorithm.name} "
            "from others that compare siblings may be gone; set it to none, std or batch"
        )
    if config.critic.model == "shared" and algorithm.critic == "joint":
        reasons.append(
            f"the critic of {algorithm.name} is one for the team and can share the trunk of no agent's policy: "
            "set critic.model=separate"
        )
    if config.algorithm.normalize == "whiten" and algorithm.critic == "agent":
        reasons.append(
            f"algorithm.normalize=whiten takes the mean of each agent's advantages away, and with it the baseline of "
            f"{algorithm.name}; set it to none, std or batch"
        )
    return reasons


def _kl_penalty(config: RunConfig, rows: int) -> list[str]:
    """KL penalty and reference."""
    kl, reasons = config.kl, []
    if kl.coef > 0 and kl.place == "loss" and kl.estimator == "k1":
        reasons.append(
            "kl.estimator=k1 in the loss has a gradient of mean 0 and teaches nothing: "
            "set kl.estimator to k2 or k3, or kl.place to reward or advantage"
        )
    kind, _ = kl.named
    if kl.coef > 0 and kind in ("base", "adapter") and config.team.kind != "lora":
        reasons.append(
            f"kl.reference={kind} is a matter of adapters, and team.kind={config.team.kind} has none: "
            "set kl.reference=start (or model:NAME_OR_FOLDER), or team.kind=lora"
        )
    if kl.target is not None and kl.coef == 0:
        reasons.append(
            "kl.target moves the weight of a pull, and kl.coef=0 is none: set kl.coef to where it shall begin"
        )
    if kl.target is not None and kl.horizon < rows:
        reasons.append(
            f"kl.horizon={kl.horizon} is less than the {rows} completions that a step has at most for a policy, so "
            f"that one step could turn the pull around: raise it to some times {rows}"
        )
    return reasons
