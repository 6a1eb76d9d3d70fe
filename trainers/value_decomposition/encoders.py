"""Text encoders: features for action values and mixers. Encoders are not trained."""

from __future__ import annotations

import functools
import hashlib
import importlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from palaver.agents.llm.model.inference_copy import evaluating
from palaver.agents.llm.model.load import pick_device
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.scoring.logprobs import response_logprobs, token_batches
from palaver.agents.llm.scoring.packing import padded
from palaver.core import ConfigError, Conversation, Message, PolicyError
from palaver.trainers.config.mixer import MixerConfig
from palaver.trainers.config.run import RunConfig

Pair = tuple[Conversation, str]  # an agent's conversation, and an action in it
_WORD = re.compile(r"\w+")


class Encoder(Protocol):
    """Encoder of texts to features.

    Attributes:
        state: S, width of a state's features.
        action: F, width of the features of an action with its conversation.
        one_hot: True if exactly one feature is 1, so that a linear layer is a table.
        held: number of weights of a model that it holds.
    """

    state: int
    action: int
    one_hot: bool
    held: int

    def states(self, texts: Sequence[str]) -> Tensor:
        """(n, S)."""
        ...

    def actions(self, pairs: Sequence[Pair]) -> Tensor:
        """(n, F)."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """State that later features depend on; none unless overridden."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: ARG002 - for those that have a state
        """Restore what `state_dict` returned."""
        return


def conversation_text(conversation: Conversation) -> str:
    """A conversation as one text, each message under its role."""
    return "\n".join(f"[{message.role}] {message.content}" for message in conversation)


class OneHotEncoder:
    """One-hot features, with an index per text in the order in which texts are first seen.

    Args:
        size: maximum number of texts, of states and of actions each.
    """

    one_hot = True
    held = 0

    def __init__(self, size: int) -> None:
        self.state = self.action = size
        self._states: dict[str, int] = {}
        self._actions: dict[str, int] = {}

    def states(self, texts: Sequence[str]) -> Tensor:
        """(n, S).

        Raises:
            ConfigError: there are more texts than the table has rows.
        """
        return self._rows(self._states, texts)

    def actions(self, pairs: Sequence[Pair]) -> Tensor:
        """(n, F).

        Raises:
            ConfigError: as `states`.
        """
        return self._rows(
            self._actions, [f"{conversation_text(conversation)}\n> {action}" for conversation, action in pairs]
        )

    def state_dict(self) -> dict[str, Any]:
        """The texts in their order."""
        return {"states": list(self._states), "actions": list(self._actions)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._states = {text: row for row, text in enumerate(state["states"])}
        self._actions = {text: row for row, text in enumerate(state["actions"])}

    def _rows(self, known: dict[str, int], texts: Sequence[str]) -> Tensor:
        rows = [known.setdefault(text, len(known)) for text in texts]
        if len(known) > self.state:
            raise ConfigError(
                f"the table of {self.state} texts is full: raise algorithm.mixer.features, or set "
                "algorithm.mixer.encoder=words, which needs no row for each text"
            )
        return torch.nn.functional.one_hot(torch.tensor(rows, dtype=torch.long), self.state).float()


class Words(Encoder):
    """Unit vector of hashed words and bigrams; of an action with that of its conversation.

    The sign of a feature is hashed too, so that collisions cancel in the mean: Weinberger et al., arXiv 0902.2206.

    Args:
        width: width of a text's vector.
    """

    one_hot = False
    held = 0

    def __init__(self, width: int) -> None:
        self.state, self.action = width, 2 * width

    def states(self, texts: Sequence[str]) -> Tensor:
        """(n, S)."""
        return torch.stack([hashed(text, self.state) for text in texts])

    def actions(self, pairs: Sequence[Pair]) -> Tensor:
        """(n, F)."""
        both = [
            (hashed(conversation_text(conversation), self.state), hashed(action, self.state))
            for conversation, action in pairs
        ]
        return torch.stack([torch.cat(vectors) for vectors in both])


@functools.lru_cache(maxsize=4096)
def hashed(text: str, width: int) -> Tensor:
    """(width,) signed counts of words and bigrams, of length 1; 0 for a text without words."""
    words = _WORD.findall(text.casefold())
    vector = torch.zeros(width)
    for term in (*words, *map(" ".join, itertools.pairwise(words))):
        digest = hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=8).digest()
        bucket = int.from_bytes(digest, "big")
        vector[(bucket >> 1) % width] += 1.0 if bucket & 1 else -1.0
    unit: Tensor = vector / vector.norm().clamp(min=1e-6)
    return unit


LONGEST = 4096  # tokens read of a text where the model says nothing: the newest ones
LEAST = -20.0  # nats; below it one token is as surprising as another


class FrozenFeatures:
    """Last hidden states of a policy with its initial weights.

    A state is encoded as one message: the mean over its tokens. An action is encoded after its conversation: the mean
    over its own tokens, the hidden state of the last token before them, log(1 + number of tokens), and with
    `likelihood` the mean and the minimum log-prob of its tokens under these weights: surprising texts are wrong more
    often. Vectors are divided by their root mean square.

    Args:
        body: policy whose current weights are copied.
        pass_tokens: maximum padded tokens computed at once.
        config: the section `algorithm.mixer`: whether features of the log-probs are added, and the copy's device.

    Raises:
        PolicyError: that device is not here.
    """

    one_hot = False

    def __init__(self, body: LLMPolicy, pass_tokens: int, config: MixerConfig) -> None:
        self.body, self.pass_tokens, self.likelihood = body, pass_tokens, config.likelihood
        self.device = pick_device(config.encoder_device or str(body.device))
        self.frozen = body.freeze(self.device)
        shape = body.model.config.get_text_config()
        self.state = int(shape.hidden_size)
        self.action = 2 * self.state + (3 if self.likelihood else 1)
        self.longest = int(getattr(shape, "max_position_embeddings", LONGEST))
        self.held = sum(tensor.numel() for tensor in self.frozen.state_dict().values())

    def states(self, texts: Sequence[str]) -> Tensor:
        """(n, S)."""
        ids = [self.body.render((Message("user", text),))[-self.longest :] for text in texts]
        return self._read(ids, [0] * len(ids))[:, : self.state]

    def actions(self, pairs: Sequence[Pair]) -> Tensor:
        """(n, F)."""
        prompts, answers = [], []
        for conversation, action in pairs:
            answer = list(self.body.tokenizer(action, add_special_tokens=False)["input_ids"])[: self.longest - 1]
            prompts.append(list(self.body.render(conversation)[-(self.longest - len(answer)) :]))
            answers.append(answer)
        ids = [[*before, *answer] for before, answer in zip(prompts, answers, strict=True)]
        lengths = torch.tensor([float(len(answer)) for answer in answers]).log1p()
        parts = [self._read(ids, [len(before) for before in prompts]), lengths[:, None]]
        if self.likelihood:
            parts.append(self._expected(prompts, answers))
        return torch.cat(parts, dim=1)

    def state_dict(self) -> dict[str, Any]:
        """State of the copy of the policy's trained weights."""
        return {name: tensor.cpu() for name, tensor in self.frozen.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.frozen.load_state_dict({name: tensor.to(self.device) for name, tensor in state.items()})

    def _expected(self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> Tensor:
        """(n, 2) mean and minimum log-prob of an answer's tokens, 0 for one without tokens."""
        features = torch.zeros(len(answers), 2)
        answered = [row for row, answer in enumerate(answers) if answer]
        with self.frozen.active() as model, evaluating(model), torch.no_grad():
            for batch in _batches([[*prompts[row], *answers[row]] for row in answered], self.pass_tokens):
                rows = [answered[index] for index in batch]
                logprobs, mask = response_logprobs(model, [prompts[r] for r in rows], [answers[r] for r in rows])
                logprobs = logprobs.float().clamp(min=LEAST)
                mean = logprobs.sum(dim=1) / mask.sum(dim=1)
                features[rows] = torch.stack([mean, logprobs.min(dim=1).values], dim=1).cpu()
        return features

    def _read(self, ids: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
        """(n, 2 S) mean over the tokens from `starts` on (of none: the last), and last token before."""
        features = torch.zeros(len(ids), 2 * self.state)
        with self.frozen.active() as model, evaluating(model), torch.no_grad():
            for batch in _batches(ids, self.pass_tokens):
                tokens = torch.from_numpy(padded([ids[row] for row in batch])).to(self.device)
                hidden = model.base_model(input_ids=tokens, use_cache=False)[0].float()
                vectors = []
                for index, row in enumerate(batch):
                    length, start = len(ids[row]), starts[row]
                    mean = hidden[index, min(start, length - 1) : length].mean(dim=0)
                    before = hidden[index, max(start, 1) - 1]
                    vectors.append(torch.cat([_scaled(mean), _scaled(before)]))
                features[batch] = torch.stack(vectors).cpu()
        return features


class Sentences(Encoder):
    """A sentence-embedding model of transformers.

    An embedding is the mean of the last hidden states, scaled to length 1.

    Args:
        name: name of the model, or its folder.
        device: device of the model.
        pass_tokens: maximum padded tokens computed at once.

    Raises:
        PolicyError: it cannot be loaded.
    """

    one_hot = False

    def __init__(self, name: str, device: torch.device, pass_tokens: int) -> None:
        library = importlib.import_module("transformers")
        try:
            self.tokenizer: Any = library.AutoTokenizer.from_pretrained(name)
            self.model: Any = library.AutoModel.from_pretrained(name).to(device).eval().requires_grad_(False)
        except (OSError, ValueError) as error:
            raise PolicyError(
                f"algorithm.mixer.encoder: cannot load the model {name!r}: {' '.join(str(error).split())[:200]}"
            ) from error
        self.device, self.pass_tokens = device, pass_tokens
        config = self.model.config.get_text_config()
        self.state = int(config.hidden_size)
        self.action = 2 * self.state
        self.longest = int(getattr(config, "max_position_embeddings", LONGEST)) - 2  # some models keep two places
        self.held = sum(parameter.numel() for parameter in self.model.parameters())

    def states(self, texts: Sequence[str]) -> Tensor:
        """(n, S)."""
        ids = [list(self.tokenizer(text)["input_ids"])[-self.longest :] or [0] for text in texts]
        embeddings = torch.zeros(len(ids), self.state)
        with torch.no_grad():
            for batch in _batches(ids, self.pass_tokens):
                tokens = torch.from_numpy(padded([ids[row] for row in batch])).to(self.device)
                mask = torch.tensor(
                    [[position < len(ids[row]) for position in range(tokens.shape[1])] for row in batch]
                )
                weight = mask.to(self.device)[..., None].float()
                hidden = self.model(input_ids=tokens, attention_mask=mask.long().to(self.device))[0].float()
                mean = (hidden * weight).sum(dim=1) / weight.sum(dim=1)
                embeddings[batch] = torch.nn.functional.normalize(mean, dim=1).cpu()
        return embeddings

    def actions(self, pairs: Sequence[Pair]) -> Tensor:
        """(n, F) embeddings of the conversations, each distinct text once, and of the actions."""
        contexts = [conversation_text(before) for before, _ in pairs]
        known = {text: row for row, text in enumerate(dict.fromkeys(contexts))}
        first = self.states(list(known))[[known[text] for text in contexts]]
        return torch.cat([first, self.states([action for _, action in pairs])], dim=1)


def encoder(config: RunConfig, device: str) -> Encoder:
    """Make the encoder of `algorithm.mixer`, unless it reads a policy's hidden states.

    Args:
        config: config of the run.
        device: device of models, unless `algorithm.mixer.encoder_device` is set.

    Raises:
        PolicyError: a model that cannot be loaded, or a device that is not here.
    """
    mixer = config.algorithm.mixer
    if mixer.reads == "table":
        return OneHotEncoder(mixer.features)
    if mixer.reads == "words":
        return Words(mixer.features)
    assert mixer.reads != "policy"  # refused for legal actions, which have no policy
    torch_device = pick_device(mixer.encoder_device or device)
    name, pass_tokens = mixer.reads.removeprefix("hf:").strip(), config.train.pass_tokens(torch_device.type)
    return Sentences(name, torch_device, pass_tokens)


def _scaled(vector: Tensor) -> Tensor:
    return vector / vector.square().mean().sqrt().clamp(min=1e-6)


def _batches(ids: Sequence[Sequence[int]], max_tokens: int) -> Iterator[list[int]]:
    """Batches of rows, long texts first, of at most `max_tokens` padded tokens (or one text)."""
    rows = sorted(range(len(ids)), key=lambda row: (-len(ids[row]), row))
    return token_batches(rows, [len(ids[row]) for row in rows], max_tokens)
