"""`palaver play`: one episode in the terminal, or episodes in a page."""

from __future__ import annotations

import itertools
import math
import webbrowser
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import typer
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from palaver.agents.simple import QuitError
from palaver.benchmarks.reports.summary import most_possible
from palaver.cli import options
from palaver.cli.output import console, count, note, say, table
from palaver.core import TaskError, did_you_mean
from palaver.envs.base.env import TextEnv
from palaver.episodes import Episode, Turn
from palaver.registry import spec
from palaver.text import clean
from palaver.trainers.rollout.episodes import SamplingPlan, rollout, text_env
from palaver.utils.config import merged
from palaver.utils.tool_calls import transcript

LAST = 1  # turns shown again to who has played them
HELP = """Play one episode in the terminal, by hand or with any team, or in a page of the browser.

[bold]Examples[/bold]

[cyan]palaver play arxiv-v0[/cyan]  [dim]# you play every agent[/dim]

[cyan]palaver play arxiv-v0 --team background=human,method=tiny[/cyan]

[cyan]palaver play arxiv-v0 --team tiny --task 3 "length=[32,64]"[/cyan]

[cyan]palaver play arxiv-v0 --team run:runs/FOLDER[/cyan]  [dim]# a trained team, on held-out tasks[/dim]

[cyan]palaver play pokemon-v1 --team p1=human,p2=scripted:reference --browser[/cyan]  [dim]# by clicks[/dim]
"""


def play(
    env: Annotated[str, typer.Argument(metavar="ENV", help="An environment, as arxiv-v0.")],
    pairs: options.Pairs = None,
    team: options.Team = "human",
    task: Annotated[str | None, typer.Option(help="A task's id or index; drawn by the seed if not given.")] = None,
    seed: options.Seed = 0,
    greedy: options.Greedy = False,
    browser: Annotated[
        bool, typer.Option("--browser", help="Play in a page on this machine, by clicks where actions are listed.")
    ] = False,
    explain: options.Explain = False,
) -> None:
    """Play one episode in the terminal."""
    from palaver.benchmarks.evaluation.evaluate import as_trained
    from palaver.trainers.rollout.team import parse_team

    env_spec = spec(env)
    settings, given = options.split(options.PlayerSettings, pairs)
    if explain:
        options.explain(settings)
        note(f"keywords of the environment: palaver envs {env}")
        return
    known, sampling, agent_sampling = as_trained(team, env)
    environment = text_env(env, merged(known, given))
    chosen = choose_task(environment, task, seed)
    agents = environment.possible_agents
    model = settings.model
    players = parse_team(team, env_spec, agents, model.options(), environment.source, model.force, note)
    how = {agent: settings.draws(agent_sampling.get(agent, sampling), greedy) for agent in agents}
    opponents = env_spec.competes(environment)
    bound = most_possible(environment, env_spec)
    max_reward = None if opponents or math.isinf(bound) else bound
    by_hand = any(player.name == "human" for player in players.values())
    games = following(environment, chosen, seed)
    try:
        if browser:
            from palaver.benchmarks.play_page.serving import play_in_page

            finished = partial(show, max_reward=max_reward, turns=LAST)
            play_in_page(environment, players, games, how, max_reward, _open, finished)
            return
        (episode,) = rollout(environment, players, [chosen], SamplingPlan(), sampling=how, seed=seed)
    except QuitError as end:
        note(str(end))
        return
    show(episode, max_reward, turns=LAST if by_hand else None)


def following(env: TextEnv, first: str, seed: int) -> Iterator[tuple[str, int]]:
    """Yield tasks in a circle, each with a seed of its own, from `first` with `seed` on."""
    ids = [task.id for task in env.tasks]
    start = ids.index(first)
    for number in itertools.count():
        yield ids[(start + number) % len(ids)], seed + number


def _open(address: str) -> None:
    say(f"{address}  (Ctrl-C ends the game)")
    if not webbrowser.open(address):
        note("note: no browser could be opened; open the address yourself")


def choose_task(env: TextEnv, wanted: str | None, seed: int) -> str:
    """Return the id of a task given by id or index, or by the seed if none is given.

    Raises:
        TaskError: there is no such task.
    """
    ids = [task.id for task in env.tasks]
    if wanted is None:
        return ids[seed % len(ids)]
    if wanted in ids:
        return wanted
    if wanted.isdecimal() and int(wanted) < len(ids):
        return ids[int(wanted)]
    hint = did_you_mean(wanted, ids) if len(ids) <= 200 else ""
    raise TaskError(
        f"there is no task {wanted!r} among the {len(ids)} of {env.source or 'this environment'}.{hint[:120]}"
    )


def show(episode: Episode, max_reward: float | None, turns: int | None = None) -> None:
    """Print an episode by turn: observations, completions, and rewards with their components.

    Args:
        episode: to be printed.
        max_reward: upper bound of the team's return; None if unbounded, and for opponents, each of which has a reward
            of its own.
        turns: number of last turns to be printed; None for all.
    """
    say(Text(episode.env, style="bold"), Text(f"task {clean(episode.task, 120)}, seed {episode.seed}", style="dim"))
    for turn in episode.turns[-turns if turns else 0 :]:
        console.print(Rule(f"turn {turn.index + 1}", style="dim", align="left"))
        _show_turn(turn, episode)
    say(_total(episode, max_reward), Text(f"({episode.stop} after {count(len(episode.turns), 'turn')})", style="dim"))


def _total(episode: Episode, max_reward: float | None) -> Text:
    if max_reward is not None:
        return Text.assemble(
            ("reward ", "dim"), (f"{episode.team_return():.3f}", "bold"), (f" of {max_reward:g}", "dim")
        )
    text = Text("reward", style="dim")
    for agent in episode.team:
        total = sum(turn.rewards[agent] for turn in episode.turns)
        text.append(f" {clean(agent, 60)} ").append(f"{total:.3f}", style="bold not dim")
    return text


def _show_turn(turn: Turn, episode: Episode) -> None:
    for agent, observation in turn.observations.items():
        if observation:
            heading = Text(f"{clean(agent, 60)} is shown", style="dim")
            console.print(Panel(Text(clean(observation)), title=heading, title_align="left", border_style="dim"))
    for agent, completion in turn.completions.items():
        player = clean(episode.team.get(agent, ""), 60)
        heading = Text.assemble(
            (clean(agent, 60), "bold"), f" ({player}), {count(len(completion.text.split()), 'word')}"
        )
        spoken = transcript(completion)
        text = Text(clean(spoken)) if spoken.strip() else Text("says nothing", style="dim italic")
        console.print(Panel(text, title=heading, title_align="left", border_style="blue"))
    console.print(_reward_table(turn))
    measured = ", ".join(f"{clean(name, 60)} {value:.3g}" for name, value in turn.metrics.items())
    if measured:
        say(Text(f"measured: {measured}", style="dim"))


def _reward_table(turn: Turn) -> object:
    agents = list(turn.rewards)
    grid = table("component", *map(clean, agents), right=map(clean, agents))
    for name in dict.fromkeys(name for parts in turn.components.values() for name in parts):
        grid.add_row(Text(clean(name, 60)), *(f"{turn.components[agent].get(name, 0.0):.3f}" for agent in agents))
    grid.add_row(Text("reward", style="bold"), *(f"[bold]{turn.rewards[agent]:.3f}[/bold]" for agent in agents))
    return grid
