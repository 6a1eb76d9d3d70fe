"""Looking at battles."""

from __future__ import annotations

import json
import random
import re

import pytest

from palaver.envs.pokemon import replay
from palaver.envs.pokemon.env import PokemonEnv

LINES = [
    "|player|p1|p1||",
    "|start",
    "|switch|p1a: Mew|Mew|404/404",
    "|switch|p2a: </script><b>|Rhydon|100/100",
    "|turn|1",
    "|move|p1a: Mew|Surf|p2a: </script><b>",
    "|-supereffective|p2a: </script><b>",
    "|-damage|p2a: </script><b>|25/100 par",
    "|-status|p1a: Mew|tox",
    "|turn|2",
    "|faint|p2a: </script><b>",
    "|win|p1",
]


def frames(page):
    return json.loads(re.search(r"const frames = (.*);\n", page)[1])


def test_text():
    assert replay.text("a title", LINES).splitlines() == [
        "[a title]", "Start", "  p1 Mew came in 404/404", "  p2 </script><b> (Rhydon) came in 100/100", "Turn 1",
        "  p1 Mew used Surf on p2 </script><b>; super effective; p2 </script><b> down to 25/100 par; p1 Mew got tox",
        "Turn 2", "  p2 </script><b> fainted", "  p1 won",
    ]  # fmt: skip


def test_page():
    page = replay.page("<title> FRAMES", LINES)
    shown = frames(page)
    assert shown[0] == {"turn": 0, "text": "p1 Mew came in 100 %", "p1": [["Mew", 1.0, "", True, []]], "p2": []}
    hurt = next(frame for frame in shown if "down to" in frame["text"])
    assert hurt["p2"] == [["</script><b>", 0.25, "par", True, []]]
    assert shown[-1]["p2"] == [["</script><b>", 0.0, "", True, []]]
    assert shown[-1]["p1"] == [["Mew", 1.0, "tox", True, []]]
    assert page.count("</script>") == 1
    assert "<title>&lt;title&gt; FRAMES</title>" in page


def test_a_page_asks_for_nothing_from_elsewhere():
    page = replay.page("t", LINES)
    assert not re.search(r"https?:|src=|href=|@import|fetch\(", page)


@pytest.mark.usefixtures("pool")
def test_render():
    assert PokemonEnv("gen1ou").render() is None
    env, rng = PokemonEnv("gen1ou", render_mode="html"), random.Random(4)
    assert frames(env.render()) == []
    env.reset(seed=4)
    while env.agents:
        env.step({side: rng.choice(legal) for side, legal in env.legal_actions.items() if legal})
    last = frames(env.render())[-1]
    assert last["text"].endswith(" won")
    alive = {side: sum(hp > 0 for _, hp, *_ in last[side]) for side in ("p1", "p2")}
    assert alive["p2" if env.battle.winner == "p1" else "p1"] == 0
    env.render_mode = "ansi"
    assert env.render().startswith("[gen1ou, sample-")
