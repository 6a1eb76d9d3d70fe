"""Critics: a language model's trunk and one linear output, read at the last token of a conversation.

`own` critics read what their agent has heard; a `joint` critic reads what all have heard and said, labelled by agent.
Neither the vocabulary's head nor more than one hidden state a conversation is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from palaver.agents.llm.packing import padded
from palaver.agents.llm.policy import LLMPolicy
from palaver.core import Conversation, Message, PolicyError, stable_seed
from palaver.envs.base import TextEnv
from palaver.trainers.config import RunConfig
from palaver.trainers.faults import NumericalError
from palaver.trainers.table import Table
from palaver.trainers.values import ValueNorm, value_loss
from palaver.trainers.world import World

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """What a critic learns from: n conversations, each with its target and the value it was given before.

    Attributes:
        ids: n token sequences; equal ones are computed once.
        target: (n,) in returns.
        old: (n,) in returns.
    """

    ids: Sequence[Ids]
    target: Tensor
    old: Tensor


@dataclass(frozen=True, slots=True)
class CriticStats:
    """What a critic's update did.

    Attributes:
        loss: mean over samples, of normalised values where they are normalised.
        grad_norm: before clipping; where the trunk is shared, of the output alone.
        explained: 1 - variance of (target - value) / variance of target, before the update; nan for equal targets.
    """

    loss: float
    grad_norm: float
    explained: float


class Critic:
    """V(conversation).

    Args:
        body: whose trunk it starts from, or shares if `critic.model` says so; its tokenizer reads the conversations.
        name: in checkpoints and errors.
        config: of the run.
        world: device and processes.
    """

    def __init__(self, body: LLMPolicy, name: str, config: RunConfig, world: World) -> None:
        self.body, self.name, self.config, self.world = body, name, config.critic, world
        self.trunk = None if config.critic.model == "shared" else body.critic_trunk(name)
        width = body.model.config.get_text_config().hidden_size
        self.seed, self.micro_tokens = config.seed, config.train.pass_tokens(body.device.type)
        self.head = nn.Linear(width, 1, device=body.device, dtype=torch.float32)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.norm = ValueNorm(config.critic.beta) if config.critic.normalize else None
        self.max_grad_norm = config.optim.max_grad_norm
        self.optimizer = torch.optim.AdamW(
            self.parameters(), lr=config.critic.lr, betas=config.optim.betas, weight_decay=config.optim.weight_decay
        )

    def parameters(self) -> list[nn.Parameter]:
        """What it trains: its output, and its trunk unless that is a policy's."""
        return [*(self.trunk.parameters() if self.trunk else ()), *self.head.parameters()]

    @property
    def shared(self) -> bool:
        """Whether it reads with the policy's own trunk."""
        return self.trunk is None

    def values(self, ids: Sequence[Ids]) -> Tensor:
        """(n,) float64 values in returns, without gradient; equal conversations are computed once."""
        unique = list(dict.fromkeys(ids))
        found: dict[Ids, float] = {}
        with torch.no_grad(), self._reading() as trunk:
            for batch in self._batches(unique):
                found |= zip(batch, self._forward(trunk, batch).double().tolist(), strict=True)
        values = torch.tensor([found[each] for each in ids], dtype=torch.float64)
        return self.norm.denormalize(values) if self.norm else values

    def update(self, samples: Samples, step: int) -> CriticStats:
        """Epochs of minibatches over the samples, each one optimiser step.

        Raises:
            NumericalError: the loss or its gradient is not finite; the weights are as before that minibatch.
        """
        self.take_in(samples)
        losses, norm = [], 0.0
        for epoch in range(self.config.epochs):
            generator = torch.Generator().manual_seed(stable_seed(self.seed, self.name, step, epoch))
            order = torch.randperm(len(samples.ids), generator=generator)
            for part in order.tensor_split(self.config.minibatches):
                if not self.world.total(float(len(part)))[0]:
                    continue  # on every process alike: they must take the same number of steps
                losses.append(self.backward(_pick(samples, part.tolist()), len(part)))
                norm = self.step()
        return critic_stats(samples, losses, norm)

    def take_in(self, samples: Samples) -> None:
        """Move the normalisation of targets, once for a batch of rollouts."""
        if self.norm:
            sums = float(samples.target.sum()), float(samples.target.square().sum()), float(len(samples.ids))
            self.norm.update(*self.world.total(*sums))

    def backward(self, samples: Samples, count: int) -> float:
        """Add the gradient of the mean loss over `count` samples, of which these are this process's; that mean.

        Raises:
            NumericalError: the loss is not finite, on any process.
        """
        target, old = (part.float().to(self.head.weight.device) for part in (samples.target, samples.old))
        if self.norm:
            target, old = self.norm.normalize(target), self.norm.normalize(old)
        places: dict[Ids, list[int]] = {}
        for place, ids in enumerate(samples.ids):
            places.setdefault(ids, []).append(place)
        total_count = max(1.0, self.world.total(float(count))[0])
        scale, loss = (1.0 if not self.shared else self.config.coef) / total_count, 0.0
        with self._reading() as trunk:
            for batch in self._batches(list(places)):
                value = self._forward(trunk, batch)
                row = [number for number, ids in enumerate(batch) for _ in places[ids]]
                each = [place for ids in batch for place in places[ids]]
                cost = value_loss(value[row], target[each], old[each], self.config.clip, self.config.huber).sum()
                self.world.accelerator.backward(cost * scale)
                loss += cost.item()
        faults, summed = self.world.total(float(not math.isfinite(loss)), loss)
        if faults:
            self.optimizer.zero_grad(set_to_none=True)
            raise NumericalError(f"the loss of the critic {self.name!r} is not finite", [])
        return summed / total_count

    def step(self) -> float:
        """One optimiser step; the gradient's norm before clipping."""
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        norm = self.world.clipped_norm(parameters, self.max_grad_norm)
        if not math.isfinite(norm):
            self.optimizer.zero_grad(set_to_none=True)
            raise NumericalError(f"the gradient of the critic {self.name!r} is not finite", [])
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimiser and normalisation."""
        return {
            "head": self.head.state_dict(),
            "trunk": self.trunk.state_dict() if self.trunk else {},
            "optimizer": self.optimizer.state_dict(),
            "norm": [self.norm.m, self.norm.q, self.norm.d] if self.norm else [],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.head.load_state_dict(state["head"])
        if self.trunk:
            self.trunk.load_state_dict(state["trunk"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.norm:
            self.norm.m, self.norm.q, self.norm.d = state["norm"]

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """The decoder that computes as this critic's trunk."""
        if self.trunk:
            with self.trunk.active() as trunk:
                yield trunk
        else:
            with self.body.active() as model:
                yield model.base_model

    def _forward(self, trunk: Any, batch: Sequence[Ids]) -> Tensor:
        """(n,) as the critic predicts them; causal attention never looks at the padding on the right."""
        device = self.head.weight.device
        ids = torch.from_numpy(padded(batch)).to(device)
        last = torch.tensor([len(each) - 1 for each in batch], device=device)
        with self.world.autocast():
            hidden = trunk(input_ids=ids, use_cache=False)[0]
        values: Tensor = self.head(hidden[torch.arange(len(batch), device=device), last].float())[:, 0]
        return values

    def _batches(self, ids: list[Ids]) -> list[list[Ids]]:
        """Long conversations first, at most `train.micro_tokens` padded tokens each (or one conversation)."""
        found: list[list[Ids]] = []
        for each in sorted(ids, key=lambda ids: (-len(ids), ids)):
            if not found or len(found[-1][0]) * (len(found[-1]) + 1) > self.micro_tokens:
                found.append([])
            found[-1].append(each)
        return found


def critic_stats(samples: Samples, losses: Sequence[float], norm: float) -> CriticStats:
    """Of an update on these samples whose steps lost so much, the last of them with this gradient."""
    return CriticStats(sum(losses) / max(1, len(losses)), norm, _explained(samples.target, samples.old))


def joint_text(table: Table, step: int, after: bool = False) -> str:
    """What all agents had heard and said when joint step `step` was decided, in order, each part under its label.

    With `after` that step's utterances follow, and the observations of the agents that it cut.
    """
    path = [step]
    while (above := int(table.parent[path[-1]])) >= 0:
        path.append(above)
    parts = []
    for number in reversed(path):
        turn = table.steps[number]
        parts += _read(turn.observations)
        if number != step or after:
            parts += [f"[{agent} says]\n{said.text}" for agent, said in turn.utterances.items()]
    if after:
        parts += _read({agent: state.observation for agent, state in table.steps[step].ahead.items()})
    return "\n\n".join(parts)


def _read(observations: Mapping[str, str]) -> list[str]:
    return [f"[{agent} reads]\n{text}" for agent, text in observations.items() if text]


def joint_ids(table: Table, body: LLMPolicy) -> list[Ids]:
    """The joint conversation of every joint step (J), as `body` reads it.

    Raises:
        PolicyError: one does not fit the context of the model.
    """
    return _rendered([joint_text(table, step) for step in range(len(table.steps))], body)


def joint_ids_after(table: Table, steps: Sequence[int], body: LLMPolicy) -> list[Ids]:
    """The joint conversation after each of these joint steps, which cut agents, as `body` reads it.

    Raises:
        PolicyError: one does not fit the context of the model.
    """
    return _rendered([joint_text(table, step, after=True) for step in steps], body)


def own_ids_after(conversations: Sequence[Conversation], body: LLMPolicy) -> list[Ids]:
    """The conversations of agents after a cut, as `body` reads them.

    Raises:
        PolicyError: one does not fit the context of the model.
    """
    found = [tuple(body.render(conversation)) for conversation in conversations]
    longest = max(map(len, found), default=0)
    if longest > _context(body):
        raise PolicyError(
            f"the conversation after an episode was cut has {longest} tokens, but the context of {body.name!r} holds "
            f"{_context(body)}, so it has no value: shorten the data, lower policy.max_tokens, or cut episodes earlier"
        )
    return found


def _rendered(texts: Sequence[str], body: LLMPolicy) -> list[Ids]:
    found = [tuple(body.render((Message("user", text),))) for text in texts]
    longest = max(map(len, found))
    if longest > _context(body):
        raise _too_long(f"has grown to {longest} tokens", body)
    return found


def refuse_long_joint(env: TextEnv, body: LLMPolicy, said: Mapping[str, int], turns: int) -> None:
    """Refuse a run whose joint conversation the critic of the team may not be able to read to its end.

    Args:
        env: whose openings are read, of all tasks.
        body: whose trunk the critic's is.
        said: agent -> most tokens of an utterance.
        turns: of an episode; what is said in the last is read after a truncation alone, see `joint_ids_after`.

    Raises:
        PolicyError: the openings with all that may be said after them do not fit the context of the model.
    """
    scratch = env.fork()
    for task in env.tasks:
        observations, infos = scratch.reset(seed=0, options={"task": task.id})
        length = len(body.render((Message("user", "\n\n".join(_read(observations))),)))
        first = sum(most for agent, most in said.items() if infos[agent].get("can_act", True))
        grown = min(turns - 1, 1) * first + max(turns - 2, 0) * sum(said.values())
        if length + grown > _context(body):
            more = f" and may grow by {grown} until the last turn" if grown else ""
            raise _too_long(f"of task {task.id!r} has {length} tokens{more}", body)


def _context(body: LLMPolicy) -> float:
    found: float = getattr(body.model.config.get_text_config(), "max_position_embeddings", math.inf)
    return found


def _too_long(what: str, body: LLMPolicy) -> PolicyError:
    return PolicyError(
        f"what the critic of the team reads {what}, but the context of {body.name!r} holds {_context(body)}: "
        "shorten the data, lower policy.max_tokens, or take an algorithm whose agents have critics of their own"
    )


def _pick(samples: Samples, places: list[int]) -> Samples:
    return Samples([samples.ids[place] for place in places], samples.target[places], samples.old[places])


def _explained(target: Tensor, value: Tensor) -> float:
    if len(target) < 2 or float(target.var()) < 1e-12:
        return math.nan
    return 1.0 - float((target - value).var() / target.var())
