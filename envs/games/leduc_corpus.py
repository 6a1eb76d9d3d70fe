"""Imitation texts of Leduc poker: a situation, then a legal action.

    my card Q, public card K, unpaired, checked opened, queen: raise.
    my card J, public card J, paired, checked, jacks: check.

From the texts of several games in `corpus` a model of two layers does not learn to tell the public card from its own.
Half of the prompts here are exercises in that. Each situation has some actions more often than others, drawn by chance,
which has nothing to do with what is right, but makes the model look at the situation before it names an action. The
last word says in one what a hand is worth, so that training does not have to learn that a pair of jacks is no jack.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from palaver.core import Conversation, Message
from palaver.envs.games import leduc
from palaver.envs.games.corpus import DONE, VALUES, done, draw_state
from palaver.utils.demonstrations import Pair, draw_texts, frequencies

DRILL = 0.5  # share of the prompts that are exercises
SECOND = 0.75  # share of the others that are of the second round
ANSWERS = 2  # to a prompt
HANDS = {"J": ("jack", "jacks"), "Q": ("queen", "queens"), "K": ("king", "kings")}  # alone, as a pair
OTHER_HANDS = ("single", "pair")  # of the values that only exercises have
KEYS = ("stone", "chip", "place", "seat")
ACTIONS = (("check", "bet"), ("fold", "call", "raise"), ("fold", "call"))
TINY = {
    "steps": 2400,
    "batch": 8,
    "texts": 40_000,
    "most_answers": ANSWERS,
    "muon_lr": 0.01,
    "adam_lr": 0.003,
    "decay": 0.6,
}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers: situations of random play and exercises."""

    def texts(rng: random.Random) -> list[Pair]:
        talk, answers = _draw_drill(rng) if rng.random() < DRILL else _draw_situation(rng)
        return [(talk, answer) for answer in answers]

    return draw_texts("leduc", n, seed, texts)


def situation(state: leduc.LeducState, player: int) -> str:
    """Both cards and their relation, what was done in this round, and the hand."""
    own = state.cards[player]
    if state.second is None:
        return f"my card {own}, {done(state.first)}, {HANDS[own][0]}"
    return _second_round(own, state.cards[2], state.second)


def _second_round(own: str, public: str, acts: Sequence[str]) -> str:
    paired = own == public
    hand = HANDS.get(own, OTHER_HANDS)[paired]
    return f"my card {own}, public card {public}, {'paired' if paired else 'unpaired'}, {done(acts)}, {hand}"


def _draw_situation(rng: random.Random) -> tuple[Conversation, list[str]]:
    second = rng.random() < SECOND
    state, player = draw_state(rng, leduc.GAME)
    while (state.second is not None) != second:
        state, player = draw_state(rng, leduc.GAME)
    return (Message("user", leduc.GAME.prompt(state, player)),), _named(
        situation(state, player), leduc.GAME.actions(state), rng
    )


def _draw_drill(rng: random.Random) -> tuple[Conversation, list[str]]:
    """Draw an exercise: two cards among other things, and acts of one of two rounds."""
    own, public = rng.choice(VALUES), rng.choice(VALUES)
    public = own if rng.random() < 1 / 3 else public
    shown = [f"Your {key}: {rng.choice(VALUES)}." for key in rng.sample(KEYS, rng.randint(0, 3))]
    shown += [f"Your card: {own}.", f"Public card: {public}."]
    acts = tuple(rng.choices([*DONE], k=rng.randint(0, 3)))
    rng.shuffle(shown)
    before = rng.choices([*DONE], k=rng.randint(1, 3))
    legal = rng.choice(ACTIONS)
    rounds = f"First round: {leduc.acts_text(before)}. Second round: {leduc.acts_text(acts)}."
    prompt = f"{' '.join(shown)} {rounds}\nActions: {', '.join(legal)}."
    return (Message("user", prompt),), _named(_second_round(own, public, acts), legal, rng)


def _named(said: str, legal: tuple[str, ...], rng: random.Random) -> list[str]:
    return [f"{said}: {action}." for action in rng.choices(legal, frequencies(len(legal), said, *legal), k=ANSWERS)]
