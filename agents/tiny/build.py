"""From the name of a generator to the folder of a model that has learned its texts."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE, WordLevel
from transformers import PreTrainedTokenizerFast

from palaver.agents.llm.model.load import save_pretrained
from palaver.agents.tiny import cache as store
from palaver.agents.tiny.gate import PROMPTS, GateCheck, demand, examine
from palaver.agents.tiny.training import Demonstration, Recipe, encode, train
from palaver.core import Conversation, PolicyError, stable_seed
from palaver.plugins import load_code
from palaver.text import one_line
from palaver.utils.machine import cache_folder

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
# ChatML, as Qwen has it
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train_tokenizer(texts: Iterable[str], pieces: int, vocabulary: int) -> PreTrainedTokenizerFast:
    """A tokenizer with a ChatML template, of at most `vocabulary` tokens.

    The tokens are three control tokens, the 256 bytes and `pieces` more from merges, as BPE has them, and then whole
    words, the frequent ones first. A word that is a token is never split; any other text falls to pieces and bytes,
    so that every text has tokens and decodes to itself.
    """
    corpus = [*texts, "system\n", "user\n", "assistant\n"]  # the words of the template, which no text holds
    splitter: Any = pre_tokenizers.ByteLevel(add_prefix_space=False)
    base, merges = _pieces(corpus, splitter, pieces)
    for word in _words(corpus, splitter, vocabulary):
        if len(base) < vocabulary:
            base.setdefault(word, len(base))
    core = Tokenizer(BPE(vocab=base, merges=merges, ignore_merges=True))
    core.pre_tokenizer = splitter
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[START],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _pieces(texts: Sequence[str], splitter: Any, count: int) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Control tokens, bytes and merges."""
    core = Tokenizer(BPE())
    core.pre_tokenizer = splitter
    special = [PAD, START, END]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer: Any = trainers.BpeTrainer(
        vocab_size=len(special) + len(alphabet) + count,
        special_tokens=special,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    model = json.loads(core.to_str())["model"]
    return dict(model["vocab"]), [(first, second) for first, second in model["merges"]]


def _words(texts: Sequence[str], splitter: Any, count: int) -> list[str]:
    """Words as the splitter cuts them, with their leading space, the most frequent first."""
    core = Tokenizer(WordLevel())
    core.pre_tokenizer = splitter
    trainer: Any = trainers.WordLevelTrainer(vocab_size=count, show_progress=False)
    core.train_from_iterator(texts, trainer)
    vocab = core.get_vocab()
    return sorted(vocab, key=lambda word: vocab[word])


RECIPE = Recipe()
KEYED = 512  # demonstrations that decide the cache key
LEXICAL = 4000  # demonstrations that the tokenizer is made from
GATE = "gate.json"
SHIPPED = Path(__file__).with_name("shipped")  # one folder for each generator of this project, as in the cache

Generator = Callable[[int, int], list[Demonstration]]


def ensure(
    demonstrations: str,
    *,
    cache: Path | None = None,
    progress: bool = True,
    seed: int = 0,
    recipe: Recipe | None = None,
    from_scratch: bool = False,
) -> Path:
    """Folder of the tiny model for these demonstrations, in the format of transformers.

    It is the shipped one if its texts, recipe and seed are the wanted ones. Otherwise it is one from the cache, trained
    if it does not exist yet or if one of its files is damaged. Nothing is downloaded.

    Args:
        demonstrations: `module:function`, a function `(n, seed) -> list[(conversation, answer)]`.
        cache: where models are kept; None is the folder `tiny` in the cache of the user.
        progress: show a bar while training.
        seed: of weights and order.
        recipe: shape and training; None is `RECIPE` with the overrides of the generator's module in its mapping `TINY`.
        from_scratch: leave the shipped model aside.

    Raises:
        PolicyError: no such generator, the cache cannot be written, the model did not pass the examination, or the
            shipped one is damaged.
    """
    generate: Generator = load_code(demonstrations, "the demonstrations ", PolicyError)
    if not callable(generate):
        raise PolicyError(f"the demonstrations {demonstrations!r} are not a function of (n, seed)")
    recipe = recipe or suited(generate)
    name = f"{folder_stem(demonstrations)}-{_key(generate, recipe, seed)}"
    if not from_scratch and (shipped := SHIPPED / name).is_dir():
        if not store.is_whole(shipped):
            raise PolicyError(
                f"the tiny model {name!r} that ships with Palaver is damaged: install Palaver again, or have one "
                "taught on this machine with policy.from_scratch=true"
            )
        return shipped
    folder = (cache or cache_folder() / "tiny") / name
    if not store.is_whole(folder):
        store.publish(folder, lambda target: _build(target, generate, demonstrations, recipe, seed, progress))
    return folder


def folder_stem(demonstrations: str) -> str:
    """Name of a generator's model without its key.

    It is `matrix` for `palaver.envs.matrix.corpus:demonstrations`.
    """
    module, _, function = demonstrations.partition(":")
    stem = module.removeprefix("palaver.").removeprefix("envs.").removesuffix(".corpus").replace(".", "-")
    return stem if function == "demonstrations" else f"{stem}-{function}"


def suited(generate: Generator) -> Recipe:
    """The usual recipe with the changes in the generator's module.

    They are a mapping `TINY`, as `{"steps": 200}`.

    Raises:
        PolicyError: a recipe has no such field.
    """
    changes = getattr(sys.modules.get(getattr(generate, "__module__", "")), "TINY", {})
    try:
        return replace(RECIPE, **changes)
    except TypeError as error:
        raise PolicyError(f"TINY of {generate.__module__} does not fit a recipe: {one_line(error)}") from error


def checks(folder: Path) -> list[GateCheck]:
    """The examination that the model in this folder passed."""
    return [GateCheck(**record) for record in json.loads((folder / GATE).read_text(encoding="utf-8"))]


def _key(generate: Generator, recipe: Recipe, seed: int) -> str:
    """A digest of texts, recipe and seed: another grammar or another prompt makes another model."""
    texts = [
        [answer, *(f"{message.role}: {message.content}" for message in conversation)]
        for conversation, answer in generate(KEYED, stable_seed("tiny texts", seed))
    ]
    if not texts:
        raise PolicyError("the demonstrations are empty: the tiny model has nothing to learn from")
    settings = {name: value for name, value in asdict(recipe).items() if value is not None}
    content = json.dumps([settings, seed, texts], sort_keys=True)
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _build(folder: Path, generate: Generator, name: str, recipe: Recipe, seed: int, progress: bool) -> None:
    known = generate(recipe.texts, stable_seed("tiny texts", seed))
    fresh = _fresh(generate, stable_seed("tiny gate", seed))
    tokenizer = train_tokenizer(_texts(known[:LEXICAL]), recipe.pieces, recipe.vocabulary)
    with _bar(recipe.steps, visible=progress) as report:
        model = train(tokenizer, encode(tokenizer, known), recipe, seed, report)
    model = model.half().float()  # as it is stored: the examination is of the weights that everyone loads
    checks = examine(model, tokenizer, known, fresh)
    demand(checks, name)
    with store.writing(folder.parent):
        save_pretrained(model.half(), tokenizer, folder)
        (folder / GATE).write_text(json.dumps([asdict(check) for check in checks], indent=1), encoding="utf-8")


def _fresh(generate: Generator, seed: int) -> list[Demonstration]:
    """One demonstration for each of `PROMPTS` prompts.

    There are fewer if the generator has fewer prompts in four times that number.
    """
    first: dict[Conversation, str] = {}
    for conversation, answer in generate(4 * PROMPTS, seed):
        first.setdefault(conversation, answer)
    return list(first.items())[:PROMPTS]


def _texts(demonstrations: Sequence[Demonstration]) -> list[str]:
    """Each prompt once, and the answers."""
    prompts = dict.fromkeys(message.content for conversation, _ in demonstrations for message in conversation)
    return [*prompts, *(answer for _, answer in demonstrations)]


@contextmanager
def _bar(steps: int, *, visible: bool) -> Iterator[Callable[[int, float], None]]:
    """A bar on standard error; yields the function that each step is reported to."""
    columns = (
        TextColumn("teaching the tiny model"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr), disable=not visible) as bar:
        task = bar.add_task("", total=steps, loss="")

        def report(step: int, loss: float) -> None:
            bar.update(task, completed=step, loss=f"loss {loss:.3f}")

        yield report
