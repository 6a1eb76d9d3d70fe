"""A league of tables of logits: the trainer's own loop, matchmaking and estimators without a language model."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from palaver.core import Completion, Sampling
from palaver.trainers.algorithms.base import chosen
from palaver.trainers.config.loading import parse
from palaver.trainers.league.pool import Pool
from palaver.trainers.league_loop import Exploiter, League, LeagueLoop
from palaver.trainers.rollout.episodes import text_env
from palaver.trainers.run import checkpoint
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.session import RunStart, run_session
from palaver.trainers.update.update_records import UpdateStats
from palaver.trainers.update.updater import Updater

SIZE = 9  # most actions of an information set


class Table:
    """Policy with a logit for each action of each prompt; 0 at first, so that actions are equally likely."""

    def __init__(self, name="shared", logits=None):
        self.name, self.version, self.logits = name, 0, dict(logits or {})

    @property
    def shared_engine(self):
        return self

    def probabilities(self, prompt, count):
        logits = self.logits.get(prompt, [0.0] * count)
        weights = [math.exp(logit - max(logits)) for logit in logits]
        return [weight / sum(weights) for weight in weights]

    def chances(self, prompts, actions):
        return [self.probabilities(prompt, len(legal)) for prompt, legal in zip(prompts, actions, strict=True)]

    def act(self, requests):
        return [[self._answer(request, seed) for seed in request.seeds] for request in requests]

    def _answer(self, request, seed):
        prompt, legal = request.conversation[-1].content, request.actions
        chances = self.probabilities(prompt, len(legal))
        (n,) = random.Random(seed).choices(range(len(legal)), chances)
        logp = (math.log(chances[n]),)
        return Completion(legal[n], tuple(prompt.encode()), (n,), logp, logp, self.version)

    def save(self, folder):
        Path(folder).mkdir(parents=True)
        (Path(folder) / "table.json").write_text(json.dumps(self.logits))

    @classmethod
    def load(cls, folder, agent):
        return cls(agent, json.loads((folder / "table.json").read_text()))


class TableLearner:
    """Plain policy gradient of a table; the learning rate decays to a twentieth."""

    remote, coef = False, 0.0

    def __init__(self, policy, agents, config):
        self.policy, self.agents, self.config = policy, tuple(agents), config
        self.sampling, self.coef = Sampling(), config.kl.coef
        self.reference = dict(policy.logits)

    def update(self, work):
        gradient = {}
        for row in work.rows:
            completion = work.batch.completions[row]
            prompt, count = bytes(completion.prompt_ids).decode(), self._count(completion)
            chances = self.policy.probabilities(prompt, count)
            scale = float(work.weight[row] * work.batch.advantage[row])
            sums = gradient.setdefault(prompt, np.zeros(count))
            sums += scale * (np.eye(count)[completion.token_ids[0]] - chances)
        rate = self.config.optim.lr * 0.05 ** (work.step / self.config.train.steps)
        for prompt, sums in gradient.items():
            old = self.policy.logits.get(prompt, [0.0] * len(sums))
            self.policy.logits[prompt] = [float(logit + rate * part) for logit, part in zip(old, sums, strict=True)]
        self.policy.version += 1
        return UpdateStats(0.0, 0.0, 0.0, 0.0, 0.0, 1, len(work.rows), rate, 0.0)

    @staticmethod
    def _count(completion):
        return len(bytes(completion.prompt_ids).decode().rsplit("Actions: ", 1)[1].split(","))

    def reference_log_probs(self, batch, rows):
        table, found = Table(logits=self.reference), {}
        for row in rows:
            completion = batch.completions[row]
            chances = table.probabilities(bytes(completion.prompt_ids).decode(), self._count(completion))
            found[row] = torch.tensor([math.log(chances[completion.token_ids[0]])])
        return found

    def follow(self, step, coef):
        kind, every = self.config.kl.named
        if kind == "every" and step % int(every) == 0:
            self.reference = dict(self.policy.logits)

    def pull_state(self):
        return {"reference": {prompt: list(row) for prompt, row in self.reference.items()}}

    def load_pull(self, state):
        self.reference = dict(state["reference"])

    def collect(self):
        pass

    def save_optimizer(self, path):
        path.write_bytes(b"")


def config_of(**sections):
    """Config of a league on kuhn-v0 with the given sections."""
    base = {
        "env": {"id": "kuhn-v0"},
        "team": {"kind": "shared"},
        "league": {"self_play": 0.8, "snapshot_every": 50, "matchmaking": "pfsp", "games": 0},
        "algorithm": {"name": "marloo", "credit": "own", "group_size": 4},
        "kl": {"coef": 0.2, "place": "reward", "reference": "every:300"},
        "optim": {"lr": 20.0},
        "train": {"steps": 20, "prompts_per_step": 6, "checkpoint_every": 1000},
        "eval": {"n": 1, "samples": 1},
        "log": {"tensorboard": False, "episodes": False},
    }
    return parse(
        {key: {**base.get(key, {}), **sections.get(key, {})} for key in base | sections if key != "seed"}
        | {"seed": sections.get("seed", 0)}
    )


class Passive(TableLearner):
    """Learner that never learns; its table checks or folds."""

    def __init__(self, *args):
        super().__init__(*args)
        game = text_env("kuhn-v0", {}).exact_game()
        self.policy.logits = {prompt: [40.0, 0.0] for prompt in game.prompts}

    def update(self, work):
        del work
        return UpdateStats(0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0.0)


def train_tables(config, folder, start=None, passive=False):
    """Train a table in the league of a config, from a checkpoint if given; return the loop."""
    env, algorithm, distributed = (
        text_env(config.env.id, config.env.keywords()),
        chosen(config.algorithm),
        Distributed("cpu", "fp32"),
    )
    state = checkpoint.load_updater(start) if start else {}

    def made(name, _start=None, state=None):
        free = config.model_copy(update={"kl": config.kl.model_copy(update={"coef": 0.0})})
        table = Table.load(start / "policies" / name, name) if state else Table(name)
        updater = Updater(algorithm, free, [TableLearner(table, env.possible_agents, free)], distributed)
        if state:
            updater.load_state_dict(state["exploiters"][name])
        return Exploiter(name, dict.fromkeys(env.possible_agents, table), updater)

    table = Table.load(start / "policies" / "shared", "shared") if start else Table()
    learner = (Passive if passive else TableLearner)(table, env.possible_agents, config)
    updater = Updater(algorithm, config, [learner], distributed)
    pool = Pool(folder, config.league.size, {}, Table.load)
    if start:
        updater.load_state_dict(state)
        pool.load_state_dict(state["league"]["pool"])
    exploiters = [made(f"exploiter-{n}", start, state.get("league")) for n in range(1, config.league.exploiters + 1)]
    team = dict.fromkeys(env.possible_agents, table)
    with run_session(
        config, distributed, RunStart(folder, start, locked=start is not None), Console(quiet=True)
    ) as run:
        loop = LeagueLoop(run, env, env, team, updater, league=League(pool, made, exploiters, env.exact_game()))
        loop.run()
    return loop
