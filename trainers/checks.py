"""Checks for contradictory settings, before anything is loaded; each error says what to do."""

from __future__ import annotations

from collections.abc import Collection

from palaver.core import refuse
from palaver.trainers.algorithms.base import Algorithm, has_token_values
from palaver.trainers.config.run import RunConfig
from palaver.trainers.objectives.advantages import shared_reward
from palaver.trainers.objectives.losses import ppo_clip, reinforce
from palaver.trainers.placement.checks import Check, shard_checks, worker_checks
from palaver.trainers.run.memory import most_rows
from palaver.trainers.self_interest_checks import alignment_checks, team_credit_check
from palaver.trainers.update.off_policy_checks import correction_checks, lead_checks


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
    checks = [
        *_players(config, algorithm, agents - len(config.team.frozen), at_once),
        team_credit_check(config, algorithm, zero_sum),
        *_rollouts(config, algorithm),
        *(_mixing(config, algorithm, turns) if algorithm.mixer != "none" else ()),
    ]
    if algorithm.mixer == "none" or config.algorithm.mixer.actions == "sentences":
        checks += [
            *_sampling(config, algorithm, turns, rows),
            *_truncation(config, algorithm),
            *_ratios(config, algorithm, prompts_differ),
            *correction_checks(config, algorithm),
            *_values(config, algorithm),
            *_kl_penalty(config, rows),
        ]
    checks += _pairs(config, algorithm, turns) if algorithm.pairs else []
    checks += _alternatives(config, algorithm, turns)
    checks += alignment_checks(config, algorithm, agents, turns) if algorithm.aligned else []
    checks += worker_checks(config, algorithm) if config.placement.kind != "local" else []
    checks += shard_checks(config, algorithm) if config.placement.shard != "none" else []
    in_parts = config.team.kind == "lora" or config.placement.shard != "none"
    why = "train.compile is for whole models: turn it off with adapters and sharded weights"
    checks.append((config.train.compile and in_parts, why))
    checks += lead_checks(config, algorithm) if config.train.rollout_lead else []
    refuse(checks)


def refuse_tools(config: RunConfig, algorithm: Algorithm) -> None:
    """Refuse algorithms that cannot learn from a turn of several answers.

    Raises:
        ConfigError: the algorithm has values of tokens, a mixer, or pairs of joint actions.
    """
    why = f"the agents of {config.env.id} have tools, so that a turn may be several answers"
    by_token = has_token_values(algorithm, config.critic)
    others = f"{algorithm.name} needs turns of one answer: set another algorithm.name"
    checks = [
        (by_token, f"{why}, and critics of tokens have values within one: set critic.level=completion"),
        (algorithm.mixer != "none" or algorithm.pairs, f"{why}, and {others}"),
    ]
    refuse(checks)


def _mixing(config: RunConfig, algorithm: Algorithm, turns: int) -> list[Check]:
    """Value decomposition: action values and mixer."""
    mixer = config.algorithm.mixer
    alone = config.algorithm.turns == "independent" and turns > 1
    return [
        (
            algorithm.credit is not shared_reward,
            f"the mixer of {algorithm.name} decomposes the reward of the team: set algorithm.credit=team, or auto",
        ),
        (
            mixer.batch > mixer.buffer,
            f"algorithm.mixer.batch={mixer.batch} is more than algorithm.mixer.buffer={mixer.buffer} holds, so that "
            "nothing would ever be learnt: lower the one or raise the other",
        ),
        (
            mixer.actions == "sentences" and mixer.credit == "counterfactual" and alone,
            "algorithm.turns=independent has one candidate for each agent after the first turn, and "
            f"{algorithm.name} nothing to compare it with there: set algorithm.turns=tree, or "
            "algorithm.mixer.credit=value",
        ),
    ]


def _alternatives(config: RunConfig, algorithm: Algorithm, turns: int) -> list[Check]:
    """Alternatives of one agent, compared while the other agents' texts are fixed."""
    a = config.algorithm
    if a.turns not in ("by_agent", "counterfactual"):
        return []
    how = f"algorithm.turns={a.turns}"
    return [
        (
            not algorithm.needs_group or algorithm.pairs or algorithm.mixer != "none",
            f"{how} compares the candidates of one agent, and {algorithm.name} compares no such candidates: set "
            "algorithm.turns=tree, or algorithm.name to c3 or atgrpo",
        ),
        (
            a.joint == "cross",
            f"{how} freezes the other agents' texts, so that none are crossed: set algorithm.joint=aligned",
        ),
        (
            a.turns == "counterfactual" and a.stop_above is not None,
            f"{how} compares whole episodes, and algorithm.stop_above ends some of them: set it to null",
        ),
        (
            a.turns == "counterfactual" and config.kl.coef > 0 and config.kl.place == "reward" and turns > 1,
            f"{how} samples the later turns of alternatives without training on them, so that their pull is not known: "
            "set kl.place to loss or advantage",
        ),
    ]


def _sampling(config: RunConfig, algorithm: Algorithm, turns: int, rows: int) -> list[Check]:
    """Sampling, group size and minibatches."""
    a = config.algorithm
    return [
        (
            algorithm.needs_group and a.group_size < 2,
            f"{algorithm.name} compares a sample with its siblings: algorithm.group_size must be 2 or more, "
            f"got {a.group_size}",
        ),
        (
            config.policy.temperature == 0,
            "policy.temperature=0 samples the same text G times and teaches nothing; set it above 0",
        ),
        (
            a.turns in ("best", "by_agent") and a.discount > 0 and turns > 1,
            f"algorithm.turns={a.turns} continues one sibling alone, so no other can be credited with later turns: "
            "set algorithm.discount=0, or algorithm.turns=tree",
        ),
        (
            a.minibatches > rows,
            f"algorithm.minibatches={a.minibatches} is more than the {rows} completions that a step has at most for a "
            f"policy; lower it, or raise train.prompts_per_step or algorithm.group_size",
        ),
    ]


def _truncation(config: RunConfig, algorithm: Algorithm) -> list[Check]:
    """Sampling from a truncated distribution (top-p, top-k)."""
    a = config.algorithm
    sections = {"policy": config.policy} | {f"team.agents.{agent}": config.agent(agent) for agent in config.team.agents}
    cut = [(section, policy) for section, policy in sections.items() if policy.sampling().truncated]
    if not cut:
        return []
    section, policy = cut[0]
    how = f"{section}.top_p={policy.top_p:g}" if policy.top_p < 1 else f"{section}.top_k={policy.top_k}"
    return [
        (
            not config.policy.score_truncated,
            f"{how} samples from a part of the vocabulary, and log-probabilities over all of it belong to another "
            "policy: set top_p=1 and top_k=0, or policy.score_truncated=true to train on those of the part",
        ),
        (
            algorithm.pairs or algorithm.order == "sequence" or max(a.epochs, a.minibatches) > 1,
            f"{how} with policy.score_truncated needs the weights that sampled, and {algorithm.name} scores texts with "
            "later ones too: set top_p=1 and top_k=0, or an algorithm that updates all agents together, with "
            "algorithm.epochs=1 and algorithm.minibatches=1",
        ),
        (
            a.old == "learner" or a.mask is not None,
            f"{how} leaves a part of the vocabulary that depends on the weights, so that a correction of older samples "
            "would be between distributions with other tokens: set top_p=1 and top_k=0, or algorithm.old=sampler and "
            "algorithm.mask=null",
        ),
    ]


def _pairs(config: RunConfig, algorithm: Algorithm, turns: int) -> list[Check]:
    """Preference pairs of joint actions."""
    a, kl = config.algorithm, config.kl
    return [
        (
            kl.coef == 0,
            f"beta of {algorithm.name} is kl.coef, and with 0 the pairs teach nothing: set kl.coef above 0, as 0.1",
        ),
        (
            kl.place != "loss" or kl.target is not None or kl.schedule != "constant",
            f"{algorithm.name} has the pull to the reference in its own loss: leave kl.place, kl.target and "
            "kl.schedule at their defaults",
        ),
        (
            max(a.epochs, a.minibatches) > 1,
            f"{algorithm.name} weighs each pair by the weights as they are, and that once a step: set algorithm.epochs "
            "and algorithm.minibatches to 1, and train.steps higher",
        ),
        (
            a.aggregate != "sum" or a.normalize != "none",
            f"{algorithm.name} compares log-probabilities of whole texts: set algorithm.aggregate=sum and "
            "algorithm.normalize=none",
        ),
        (
            algorithm.loss is not reinforce or algorithm.credit is not shared_reward,
            f"{algorithm.name} has its own loss and compares teams: leave algorithm.surrogate and algorithm.credit",
        ),
        (
            a.turns == "independent" and turns > 1,
            f"{algorithm.name} compares answers to one prompt, and later ones differ in chains: set "
            "algorithm.turns=tree",
        ),
    ]


def _ratios(config: RunConfig, algorithm: Algorithm, prompts_differ: bool) -> list[Check]:
    """Groups of comparable answers, importance ratios and HAPPO's factor."""
    a = config.algorithm
    return [
        (
            prompts_differ and algorithm.needs_group and a.turns == "independent" and a.group_by == "prompt",
            f"{algorithm.name} compares answers to one prompt, but in this workflow later prompts differ between "
            "episodes: set algorithm.turns=tree, algorithm.group_by=turn to compare at each turn, or agent to compare "
            "over the whole task (Dr. MAS)",
        ),
        (
            algorithm.order == "sequence" and not algorithm.pairs and a.joint == "cross",
            f"{algorithm.name} weighs each joint action by its own factor, but algorithm.joint=cross makes one row of "
            f"all that a completion is in: set algorithm.joint=aligned",
        ),
        (
            algorithm.order == "sequence" and not algorithm.pairs and config.team.kind == "shared",
            f"{algorithm.name} moves one policy after the other, and with team.kind=shared there is one for all agents "
            "and no factor: set team.kind=separate (or lora), or algorithm.name=mappo, which is the same without that",
        ),
        (
            algorithm.loss is ppo_clip and a.ratio == "sequence" and a.aggregate != "mean",
            "algorithm.ratio=sequence gives every token the gradient of its whole completion, so that only their mean "
            "counts a completion once: set algorithm.aggregate=mean, or algorithm.ratio to token or turn",
        ),
        (
            algorithm.loss is reinforce and max(a.epochs, a.minibatches) > 1 and a.truncate is None,
            f"{algorithm.name} takes all samples for fresh, but with several algorithm.epochs or algorithm.minibatches "
            "most are older than the weights: set algorithm.truncate=2, algorithm.surrogate to clip or cispo, or both "
            "to 1",
        ),
    ]


def _players(config: RunConfig, algorithm: Algorithm, trained: int, at_once: bool) -> list[Check]:
    """Algorithms for one agent, and for agents in turn."""
    return [
        (
            algorithm.alone and trained != 1,
            f"{algorithm.name} is for one trained agent, and this team trains {trained}: set algorithm.name to magrpo "
            "or drmas, which are for teams, or name partners in team.frozen until one agent is left",
        ),
        (
            algorithm.in_turn and at_once,
            f"in {algorithm.name} one agent answers knowing the answer of another, but in {config.env.id} all act at "
            "once: set env.id=pioneer-v0, or algorithm.name=ippo with critic.level=token, which is the same without "
            "that",
        ),
    ]


def _rollouts(config: RunConfig, algorithm: Algorithm) -> list[Check]:
    """Dynamic sampling and length penalties that would have no effect, or hit every text."""
    a, compares = config.algorithm, algorithm.mixer == "none" and not algorithm.pairs
    max_tokens = min(config.agent(agent).max_tokens for agent in ["", *config.team.agents])
    return [
        (
            a.resample > 0 and not (algorithm.needs_group and compares),
            f"algorithm.resample replaces tasks whose samples all return the same, but {algorithm.name} takes no "
            "advantage from comparing samples of one task: set algorithm.resample=0",
        ),
        (
            a.overlong > max_tokens,
            f"algorithm.overlong={a.overlong} is more than the {max_tokens} tokens that a text may have, so that every "
            "text would be punished: set it to a part of policy.max_tokens",
        ),
        (
            a.overlong > 0 and not compares,
            f"algorithm.overlong is taken from what each agent answers for, and {algorithm.name} learns from the "
            "team's rewards: set algorithm.overlong=0",
        ),
    ]


def _values(config: RunConfig, algorithm: Algorithm) -> list[Check]:
    """Critics, credit and normalisation."""
    return [
        (
            algorithm.critic == "joint" and algorithm.credit is not shared_reward,
            f"the critic of {algorithm.name} estimates the return of the team, not of one agent: "
            "set algorithm.credit=team, or take an algorithm whose critics are the agents' own",
        ),
        (
            config.algorithm.normalize == "whiten" and algorithm.needs_group,
            f"algorithm.normalize=whiten shifts and scales advantages, and with that all that tells {algorithm.name} "
            "from others that compare siblings may be gone; set it to none, std or batch",
        ),
        (
            config.critic.model == "shared" and algorithm.critic == "joint",
            f"the critic of {algorithm.name} is one for the team and can share the trunk of no agent's policy: "
            "set critic.model=separate",
        ),
        (
            config.algorithm.normalize == "whiten" and algorithm.critic == "agent",
            f"algorithm.normalize=whiten takes the mean of each agent's advantages away, and with it the baseline of "
            f"{algorithm.name}; set it to none, std or batch",
        ),
    ]


def _kl_penalty(config: RunConfig, rows: int) -> list[Check]:
    """KL penalty and reference."""
    kl = config.kl
    kind, _ = kl.named
    return [
        (
            kl.coef > 0 and kl.place == "loss" and kl.estimator == "k1",
            "kl.estimator=k1 in the loss has a gradient of mean 0 and teaches nothing: "
            "set kl.estimator to k2 or k3, or kl.place to reward or advantage",
        ),
        (
            kl.coef > 0 and kind in ("base", "adapter") and config.team.kind != "lora",
            f"kl.reference={kind} is a matter of adapters, and team.kind={config.team.kind} has none: "
            "set kl.reference=start (or model:NAME_OR_FOLDER), or team.kind=lora",
        ),
        (
            kl.target is not None and kl.coef == 0,
            "kl.target moves the weight of a pull, and kl.coef=0 is none: set kl.coef to where it shall begin",
        ),
        (
            kl.schedule != "constant" and (kl.coef == 0 or kl.target is not None),
            f"kl.schedule={kl.schedule} takes kl.coef to 0: set kl.coef above 0, and leave kl.target null",
        ),
        (
            kl.target is not None and kl.horizon < rows,
            f"kl.horizon={kl.horizon} is less than the {rows} completions that a step has at most for a policy, so "
            f"that one step could turn the pull around: raise it to some times {rows}",
        ),
    ]
