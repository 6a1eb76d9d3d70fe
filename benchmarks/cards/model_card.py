"""Model card of a run: a folder for the hub with its weights, config and metrics.

    FOLDER/README.md       the card: metadata with the run's own evaluation, and a page
           config.yaml     a recipe that repeats the run
           metrics.jsonl   training and evaluation of every step
           policies/NAME/  weights of the newest checkpoint, if the run has one

Names and texts of a run folder are not trusted: metadata is written by `huggingface_hub`, text of the page is escaped,
and nothing of it passes through a template.
"""

from __future__ import annotations

import itertools
import json
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from palaver.benchmarks.cards.hub import is_repository
from palaver.benchmarks.reports.run_folder import RunFolder, numbers
from palaver.benchmarks.reports.summary import (
    EvaluationPoint,
    comparison,
    interval,
    key_figures,
    made_with,
    max_reward,
    score,
    status,
)
from palaver.core import CheckpointError, ConfigError, PalaverError
from palaver.markdown import code, code_block, markdown_table, prose
from palaver.registry import spec
from palaver.text import one_line
from palaver.trainers.config.run import RunConfig
from palaver.trainers.config.team import SHARING
from palaver.trainers.run.checkpoint import newest, policy_folders, step_of
from palaver.utils.config import dump

README, CONFIG, METRICS, POLICIES = "README.md", "config.yaml", "metrics.jsonl", "policies"
WEIGHTS = frozenset({".safetensors", ".json", ".jinja", ".txt", ".model"})  # neither pickles nor code
PARTS = 5  # of the training curve in the table


@dataclass(frozen=True)
class StoredPolicies:
    """Policies of the newest checkpoint: its step, and agent -> folder of its policy."""

    step: int = 0
    folders: Mapping[str, Path] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        """Agent -> name of its policy's folder."""
        return {agent: folder.name for agent, folder in self.folders.items()}


def write_model(run: RunFolder, folder: Path) -> Path:
    """Write the model card and weights of a run into `folder`; returns the path of the card.

    Raises:
        CheckpointError: its newest checkpoint is corrupt or has symbolic links.
        ConfigError: its config cannot be read.
    """
    if run.config is None:
        raise ConfigError(f"a model card needs the run's config: {'; '.join(run.notes)}")
    weights = _weights(run.folder)
    card = ModelCard(f"---\n{_metadata(run, run.config).to_yaml()}\n---\n\n{_page(run, run.config, weights)}\n")
    for path in set(weights.folders.values()):
        shutil.copytree(path, folder / POLICIES / path.name, ignore=_other_files)
    config = run.config.model_copy(update={"out": ""})  # a path of the machine
    (folder / CONFIG).write_text(dump(config), encoding="utf-8")
    lines = "".join(json.dumps(line) + "\n" for line in (*run.train, *run.evals))
    (folder / METRICS).write_text(lines, encoding="utf-8")
    (folder / README).write_text(str(card), encoding="utf-8")
    return folder / README


def _weights(source: Path) -> StoredPolicies:
    if not any((source / "checkpoints").glob("step-*")):
        return StoredPolicies()
    checkpoint, _ = newest(source)
    if links := [path for path in (checkpoint, *checkpoint.rglob("*")) if path.is_symlink()]:
        raise CheckpointError(f"{str(links[0])!r} is a symbolic link; a checkpoint that is published holds files only")
    return StoredPolicies(step_of(checkpoint), policy_folders(checkpoint))


def _other_files(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not Path(folder, name).is_dir() and Path(name).suffix not in WEIGHTS]


# --- metadata ------------------------------------------------------------------------------------


def _metadata(run: RunFolder, config: RunConfig) -> ModelCardData:
    lora = config.team.kind == "lora"
    bases = [one_line(model) for model in _models(config) if is_repository(model)]
    source = config.env.tasks
    tags = ["palaver", "multi-agent", "reinforcement-learning", config.env.id, config.algorithm.name]
    evaluation = score(run)
    final = evaluation.after or evaluation.before
    return ModelCardData(
        library_name="peft" if lora else "transformers",
        pipeline_tag="text-generation",
        base_model=bases or None,
        base_model_relation=("adapter" if lora else "finetune") if bases else None,
        datasets=_hub_data(source),
        tags=[one_line(tag) for tag in tags],
        model_name=one_line(_name(run)),
        eval_results=_results(config, final) if final else None,
    )


def _results(config: RunConfig, final: EvaluationPoint) -> list[EvalResult]:
    """Mean reward and, where the environment reports solved tasks, pass@k."""
    bounds = {"low": final.low, "high": final.high, "level": 0.95} if final.low is not None else {}
    measured = {"mean_reward": final.mean} | numbers(final.line.get("passes"))
    env = one_line(config.env.id)
    return [
        EvalResult(
            task_type="reinforcement-learning",
            dataset_type=env,
            dataset_name=env,
            dataset_split=one_line(config.eval.tasks or config.env.tasks),
            dataset_args={"seed": config.eval.seed, "samples": config.eval.samples, "greedy": config.eval.greedy},
            metric_type=one_line(name),
            metric_name="mean team reward" if name == "mean_reward" else one_line(name),
            metric_value=value,
            metric_args={"episodes": final.n, "step": final.step} | (bounds if name == "mean_reward" else {}),
        )
        for name, value in measured.items()
    ]


def _models(config: RunConfig) -> list[str]:
    """Models that the trained policies began with, each once."""
    others = [agent.model for agent in config.team.agents.values() if agent.model]
    return list(dict.fromkeys(others or [config.policy.model]))


def _hub_data(source: str) -> list[str] | None:
    """Name of the data set of an `hf:` source, for the hub links it."""
    name = source.removeprefix("hf:").partition("[")[0].partition(":")[0].partition("@")[0].strip()
    return [name] if source.startswith("hf:") and is_repository(name) else None


def _name(run: RunFolder) -> str:
    """The recipe without the folder that it may lie in."""
    return Path(run.name).name.removesuffix(".yaml")


# --- page ----------------------------------------------------------------------------------------


def _page(run: RunFolder, config: RunConfig, weights: StoredPolicies) -> str:
    parts = {
        "": _summary(config),
        "Results": _result_tables(run, config),
        "Team": _team(run, config, weights),
        "Environment": _environment(config),
        "Training": _training(run, config),
        "Use": _use(config, weights),
        "Reproduction": _reproduction(run),
        "Limits": "\n".join(f"* {line}" for line in _limits(run, config, weights)),
    }
    sections = (f"## {title}\n\n{text}" if title else text for title, text in parts.items())
    return "\n\n".join([f"# {prose(_name(run))}", *sections])


def _summary(config: RunConfig) -> str:
    return (
        f"A team of language models that plays {code(config.env.id)}, trained with Palaver by the algorithm "
        f"{code(config.algorithm.name)}: {SHARING[config.team.kind]}."
    )


def _result_tables(run: RunFolder, config: RunConfig) -> str:
    evaluation = score(run)
    points = [point for point in (evaluation.before, evaluation.after) if point]
    if not points:
        return "The run was not evaluated."
    bound = max_reward(run)
    rows = [
        [f"{point.step:,}", f"{point.mean:.3f}", interval(point.low, point.high), f"{point.n:,}"] for point in points
    ]
    head = ["step", "mean reward" + (f" (of {bound:g})" if bound else ""), "95 % interval", "episodes"]
    how = "greedily" if evaluation.greedy else "by sampling"
    tables = [
        markdown_table(head, rows, ["---:"] * 4),
        f"Tasks {code(config.eval.tasks or config.env.tasks)}, answered {how} with the seed {config.eval.seed}. The "
        "mean is over episodes of the undiscounted sum of the team's reward, the interval a bootstrap over tasks.",
    ]
    for title, lines in comparison(run):
        cells = [[code(line.name), _number(line.before), _number(line.after)] for line in lines]
        tables.append(markdown_table([title, "before", "after"], cells, ["---", "---:", "---:"]))
    return "\n\n".join(tables)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _team(run: RunFolder, config: RunConfig, weights: StoredPolicies) -> str:
    frozen, chosen = config.team.frozen, config.team.agents
    rows = []
    for agent in dict.fromkeys([*weights.folders, *run.agents, *frozen]):
        model = (chosen[agent].model if agent in chosen else None) or config.policy.model
        stored = code(f"{POLICIES}/{weights.names[agent]}") if agent in weights.names else "–"
        rows.append([code(agent), code(_public(frozen.get(agent, model))), "no" if agent in frozen else "yes", stored])
    table = markdown_table(["agent", "initial policy", "trained", "weights"], rows)
    starts = run.launch.get("warm_starts")
    hashes = [start for start in starts.values() if isinstance(start, Mapping)] if isinstance(starts, Mapping) else []
    built_in = dict.fromkeys(f"{code(start.get('model'))} with the hash {code(start.get('hash'))}" for start in hashes)
    return "\n\n".join([table, *(f"Began with {name}." for name in built_in)])


def _public(source: str) -> str:
    """Name of a model, a policy or data; of a path of this machine only the last part.

    >>> _public("run:/home/ann/runs/a"), _public("Qwen/Qwen3-0.6B")
    ('run:a', 'Qwen/Qwen3-0.6B')
    """
    kind, colon, path = source.rpartition(":")
    return f"{kind}{colon}{Path(path).name}" if path.startswith(("/", "~")) else source


def _keywords(config: RunConfig) -> dict[str, str]:
    """Keyword of the environment -> its value as JSON."""
    given = config.env.model_extra or {}
    public = {key: _public(value) if isinstance(value, str) else value for key, value in given.items()}
    return {key: one_line(json.dumps(value, default=str)) for key, value in public.items()}


def _environment(config: RunConfig) -> str:
    env = config.env
    try:
        summary = prose(spec(env.id).summary)
    except PalaverError:
        summary = "An environment that does not ship with Palaver."
    rows = [[code(key), code(value)] for key, value in ({"tasks": _public(env.tasks)} | _keywords(config)).items()]
    return f"{code(env.id)}: {summary}\n\n{markdown_table(['keyword', 'value'], rows)}"


def _training(run: RunFolder, config: RunConfig) -> str:
    algorithm, optim, policy = config.algorithm, config.optim, config.policy
    settings = [
        *((name, prose(value)) for name, value in key_figures(run)),
        ("samples of a task", f"{algorithm.group_size}, {algorithm.joint}"),
        ("tasks of a step", f"{config.train.prompts_per_step}"),
        ("learning rate", f"{optim.lr:g}, {optim.schedule}"),
        ("KL penalty", f"{config.kl.coef:g}, {config.kl.estimator}"),
        ("sampling", f"temperature {policy.temperature:g}, top_p {policy.top_p:g}, {policy.max_tokens} tokens at most"),
        ("precision", policy.dtype),
        ("seed", f"{config.seed}"),
    ]
    table = markdown_table(["setting", "value"], [[prose(name), value] for name, value in settings])
    every_key = f"Every key is in {code(CONFIG)}, every step in {code(METRICS)}."
    return "\n\n".join([table, every_key, *_curve(run)])


def _curve(run: RunFolder) -> Iterable[str]:
    """Mean training reward of each fifth of the steps."""
    steps, rewards = run.series("reward/mean")
    ends = sorted({round(part * len(steps) / PARTS) for part in range(PARTS + 1)})
    rows = [
        [f"{steps[a]:,} – {steps[b - 1]:,}", *(f"{value:.3f}" for value in _spread(rewards[a:b]))]
        for a, b in itertools.pairwise(ends)
    ]
    if rows:
        yield markdown_table(["steps", "mean training reward", "lowest", "highest"], rows, ["---:"] * 4)


def _spread(values: list[float]) -> tuple[float, float, float]:
    return sum(values) / len(values), min(values), max(values)


def _use(config: RunConfig, weights: StoredPolicies) -> str:
    if not weights.folders:
        return "The run has no checkpoint, so this folder holds no weights."
    frozen = {agent: _public(policy) for agent, policy in config.team.frozen.items() if agent not in weights.folders}
    team = {agent: f"hf:team/{POLICIES}/{name}" for agent, name in weights.names.items()} | frozen
    keywords = [f"{key}={value}" for key, value in _keywords(config).items()]
    named = ",".join(f"{agent}={policy}" for agent, policy in team.items())
    command = shlex.join(["palaver", "evaluate", config.env.id, "--team", named, *keywords])
    kind = "an adapter of `peft`" if config.team.kind == "lora" else "a model of `transformers`"
    return f"Each folder in {code(POLICIES)} is {kind}. With this repository in the folder `team`:\n\n" + code_block(
        one_line(command, 4000), "bash"
    )


def _reproduction(run: RunFolder) -> str:
    commands = ["palaver train config.yaml"]
    recipe, overrides = run.launch.get("recipe"), run.launch.get("overrides")
    if isinstance(recipe, str) and isinstance(overrides, list):
        kept = [str(item) for item in overrides if not str(item).startswith("out=")]
        commands.insert(0, shlex.join(["palaver", "train", _public(recipe), *kept]))
    made = prose(made_with(run)) or "The version of Palaver was not recorded."
    return f"{code_block(chr(10).join(map(one_line, commands)), 'bash')}\n\n{made}"


def _limits(run: RunFolder, config: RunConfig, weights: StoredPolicies) -> Iterable[str]:
    state, evaluation = status(run), score(run)
    if state.tone != "good" or run.notes:
        yield prose("; ".join([f"The run is not complete: {state.text}", *run.notes])) + "."
    if weights.folders and evaluation.after and weights.step != evaluation.after.step:
        yield f"The weights are of step {weights.step:,}, the last evaluation is of step {evaluation.after.step:,}."
    yield f"This is one run, with the seed {config.seed}; runs with other seeds may end elsewhere."
    if evaluation.after and evaluation.after.low is None:
        yield "One task was evaluated, so its mean has no interval."
    if config.tuning.seeds or config.tuning.tasks:
        chosen = [f"seeds {list(config.tuning.seeds)}", f"tasks {list(config.tuning.tasks)}"]
        yield f"Settings were chosen on {prose(', '.join(chosen))}."
    yield "A reward is what the environment's rules compute, not a judgement of people."
    yield "The agents were trained with each other; with unfamiliar partners they may do worse."
    if config.team.kind == "lora" and not is_repository(config.policy.model):
        yield (
            f"The initial model of the adapters is no repository of the hub: {code('base_model_name_or_path')} in each "
            f"{code('adapter_config.json')} is its folder on the machine that trained them, and is to be replaced."
        )
    if "tiny" in _models(config):
        yield "The built-in tiny model reads and writes only text like that of its environment's generator."
    yield "No licence is set: that of the initial models and of the data applies."
