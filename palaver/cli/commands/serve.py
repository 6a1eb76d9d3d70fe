"""`palaver serve`: a policy behind an HTTP server with OpenAI's protocol."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from palaver.agents.base.policy import Policy
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.make_policy import make_policy, parse_policy
from palaver.benchmarks.reports.run_folder import read
from palaver.cli import options
from palaver.cli.output import note, say
from palaver.core import ConfigError, PolicyError, need
from palaver.registry import spec
from palaver.trainers.rollout.episodes import text_env

KEY = "PALAVER_SERVE_KEY"
SHORTEST_KEY = 16
HELP = """Serve a policy with OpenAI's chat completions protocol.

[bold]Examples[/bold]

[cyan]palaver serve tiny --env arxiv-v0[/cyan]  [dim]# the tiny model that has learned the texts of arxiv-v0[/dim]

[cyan]palaver serve hf:Qwen/Qwen3-0.6B --port 8000[/cyan]

[cyan]palaver serve run:runs/FOLDER[/cyan]  [dim]# a trained team: each agent is a model[/dim]

Then, from another terminal: [cyan]palaver evaluate ENV --team openai:MODEL@http://127.0.0.1:8000/v1[/cyan]
"""
POLICY_HELP = (
    "[bold]hf:MODEL_OR_FOLDER[/bold], [bold]run:FOLDER[/bold], and with --env [bold]tiny[/bold] and "
    "[bold]scripted:NAME[/bold]."
)
OPEN_HELP = f"Listen on other addresses than 127.0.0.1 too; clients then need the key in {KEY}, and see plain HTTP."


def serve(
    policy: Annotated[str, typer.Argument(metavar="POLICY", help=POLICY_HELP)],
    env: Annotated[str, typer.Option(help="Environment of scripted policies and the tiny model.")] = "",
    name: Annotated[str, typer.Option(help="Model name for clients.", show_default="POLICY")] = "",
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="To listen on; 0 takes a free one.")] = 8000,
    open_: Annotated[bool, typer.Option("--open", help=OPEN_HELP)] = False,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens that a client may ask for.")] = 1024,
    waiting: Annotated[int, typer.Option(min=1, help="Most answers waited for; beyond, clients get a 429.")] = 256,
    device: options.Device = "auto",
    dtype: options.DType = "fp32",
) -> None:
    """Serve a policy."""
    need("serving", "serve", "starlette", "uvicorn")
    from palaver.agents.serving.app import LOOPBACK, ServerLimits, make_app
    from palaver.agents.serving.server import listen, run, url

    key = _key(host not in LOOPBACK, open_)
    hosts = LOOPBACK if host in LOOPBACK else ("*",)
    with listen(host, port) as listening:
        served = _policies(policy, env, name, ModelOptions(dtype=dtype, device=device))
        app = make_app(served, ServerLimits(room=waiting, tokens=max_tokens, key=key, hosts=hosts))
        say(f"serving {', '.join(served)} at {url(listening)}; Ctrl-C ends it")
        note(f"ask it as: {' or '.join(f'openai:{model}@{url(listening)}' for model in served)}")
        run(app, listening)


def _key(outside: bool, open_: bool) -> str:
    """Return the key that clients must send; "" for none."""
    key = os.environ.get(KEY, "").strip()
    if outside and not open_:
        raise ConfigError("only this machine is served, at 127.0.0.1; to listen at other addresses add --open")
    if (outside or key) and len(key) < SHORTEST_KEY:
        raise ConfigError(f"set {KEY} in the environment to a key of {SHORTEST_KEY} characters or more for the clients")
    return key


def _policies(policy: str, env: str, name: str, how: ModelOptions) -> Mapping[str, Policy]:
    """Map model names of clients to policies."""
    parsed = parse_policy(policy)
    if parsed.kind == "human":
        raise PolicyError("a person cannot be served; name a model or a scripted policy")
    if parsed.kind == "run":
        return _team(Path(parsed.source), name, how)
    env_spec = spec(env) if env else None
    scripted, texts = (env_spec.scripted, env_spec.demonstrations) if env_spec else ({}, "")
    if parsed.kind == "tiny" and not env:
        raise PolicyError("there is a tiny model for each environment; add --env ENV")
    return {name or policy: make_policy(policy, scripted=scripted, demonstrations=texts, options=how)}


def _team(folder: Path, name: str, how: ModelOptions) -> Mapping[str, Policy]:
    """Policies of a run's agents, by model name."""
    from palaver.trainers.rollout.team import load_run

    if name:
        raise PolicyError("the models of a run have the names of its agents; leave --name out")
    config = read(str(folder)).config
    if config is None:
        raise PolicyError(f"the run {str(folder)!r} has no config that can be read")
    agents = text_env(config.env.id, config.env.keywords(config.eval.tasks)).possible_agents
    return load_run(folder, agents, how, note)
