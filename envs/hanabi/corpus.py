"""Imitation texts of the mini form of Hanabi: what the player knows, and any legal action.

Every action is equally likely, so that no text shows a convention or which action is good. An answer restates what an
action may have to depend on: the fireworks; what is known of the own cards, and whether by that they are playable
(`sure`, `maybe`, `never`); the other's cards with the height of their fireworks, whether they are `next`, `later` or
`past`, and what is known of them. After `so` come a word for each card, own ones with their places, and before the
action the words of the cards that it is about: `hinted` is an own card that may be playable and of which something is
known, `ready` a card of the other's that is playable and of which the other knows something.

    red 1, blue 0; own 1 any 2 maybe, 2 any any maybe; sees 1 blue 1 on 0 next any 1, 2 red 1 on 1 past any any; so
    hinted 1 maybe 2, blue 1 ready, red 1 past: hinted 1 play 1.

A model of two layers compares only what stands together, which is why the heights are repeated. The words before the
action are there because training then has to prefer words, where without them it has to learn first which of the
earlier words an action depends on. A place follows its word, so that the model finds it by copying; with words alone it
learned them, but not at which place they stood.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.base.tasks import Task
from palaver.envs.hanabi.env import HanabiEnv
from palaver.envs.hanabi.prompts import PlayerView, read
from palaver.envs.hanabi.reference import open_cards, playable
from palaver.envs.hanabi.rules import FORMS, HeldCard, hint_of, legal_actions

HINTS = 3  # a hint is so many times as likely as another action in the games that prompts are of
KNOWN = {"maybe": "hinted", "next": "ready"}  # a status -> its name for a card of which its holder knows something
ANSWERS = 2  # to each prompt; they share its computation in training
FORM = FORMS["mini"]
TINY = {"steps": 3600, "batch": 8, "texts": 58_000, "most_answers": 2, "muon_lr": 0.01, "adam_lr": 0.003, "decay": 0.6}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers, `ANSWERS` to each prompt, on decks that were drawn for them."""
    demos: list[tuple[Conversation, str]] = []
    for index in range(-(-n // ANSWERS)):
        rng = random.Random(stable_seed("hanabi demonstrations", seed, index))
        prompt = _draw_prompt(rng)
        demos += [((Message("user", prompt),), _answer(prompt, rng)) for _ in range(ANSWERS)]
    return demos[:n]


def _answer(prompt: str, rng: random.Random) -> str:
    view = read(prompt)
    assert view is not None
    fireworks = ", ".join(f"{colour} {rank}" for colour, rank in view.fireworks.items())
    own_cards = ", ".join(f"{place} {_own(held, view.fireworks)}" for place, held in enumerate(view.own, start=1))
    seen = ", ".join(
        f"{place} {_seen(held, view.fireworks)}"
        for hand in view.others.values()
        for place, held in enumerate(hand, start=1)
    )
    action = rng.choice(view.actions)
    return f"{fireworks}; own {own_cards}; sees {seen}; so {_summary(view)}: {_reason(view, action)} {action}."


def _summary(view: PlayerView) -> str:
    """A word and place for each own card; colour, rank and a word for each seen one."""
    own = " ".join(_placed(view, place) for place in range(1, len(view.own) + 1))
    cards = [held for hand in view.others.values() for held in hand]
    seen = [f"{held.card[0]} {held.card[1]} {_word(held, _status(held, view.fireworks))}" for held in cards]
    return ", ".join([own, *seen])


def _reason(view: PlayerView, action: str) -> str:
    """The words of the cards that an action is about."""
    kind, *words = action.split()
    if kind != "hint":
        return _placed(view, int(words[0]))
    marked = [held for held in view.others[words[0]] if held.has(hint_of(words[1]))]
    return " ".join(_word(held, _status(held, view.fireworks)) for held in marked)


def _placed(view: PlayerView, place: int) -> str:
    """Word and place of an own card."""
    held = view.own[place - 1]
    return f"{_word(held, _fit(held, view.fireworks))} {place}"


def _word(held: HeldCard, status: str) -> str:
    """A card's status, or its name in `KNOWN` if the holder knows colour or rank."""
    return KNOWN.get(status, status) if 1 in (len(held.colours), len(held.ranks)) else status


def _own(held: HeldCard, fireworks: Mapping[str, int]) -> str:
    return f"{_known(held)} {_fit(held, fireworks)}"


def _fit(held: HeldCard, fireworks: Mapping[str, int]) -> str:
    """Playability of a card by what its holder knows."""
    fits = {playable(card, fireworks) for card in open_cards(held)}
    return "maybe" if len(fits) == 2 else "sure" if True in fits else "never"


def _seen(held: HeldCard, fireworks: Mapping[str, int]) -> str:
    colour, rank = held.card
    return f"{colour} {rank} on {fireworks[colour]} {_status(held, fireworks)} {_known(held)}"


def _status(held: HeldCard, fireworks: Mapping[str, int]) -> str:
    """Place of a card that is seen in the order of its firework."""
    colour, rank = held.card
    return "next" if playable(held.card, fireworks) else "past" if rank <= fireworks[colour] else "later"


def _known(held: HeldCard) -> str:
    """Colour and rank that hints leave, `any` where both are left."""
    colour = held.colours[0] if len(held.colours) == 1 else "any"
    return f"{colour} {held.ranks[0] if len(held.ranks) == 1 else 'any'}"


def _draw_prompt(rng: random.Random) -> str:
    """Draw a prompt of a game of random actions.

    More of them are hints, so that much is known of cards.
    """
    env = _make_env()
    cards = FORM.cards()
    rng.shuffle(cards)
    env.tasks, env.decks["demonstration"] = (Task("demonstration"),), cards
    observations, _ = env.reset(options={"task": 0})
    prompts = []
    while env.agents:
        agent = env.agents[env.game.mover()]
        prompts.append(observations[agent])
        legal = legal_actions(env.game)
        weights = [HINTS if action.startswith("hint") else 1 for action in legal]
        observations, *_ = env.step({agent: rng.choices(legal, weights)[0]})
    return rng.choice(prompts)


@functools.cache
def _make_env() -> HanabiEnv:
    return HanabiEnv(form="mini")
