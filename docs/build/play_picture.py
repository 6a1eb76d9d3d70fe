"""Picture of a battle that is played in a page.

`python -m docs.build.play_picture` draws `docs/figures/play-battle.png`; it needs Chromium and the simulator.
"""

from __future__ import annotations

import io
import shutil
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

from palaver.agents.make_policy import make_policy
from palaver.agents.simple import QuitError
from palaver.benchmarks.play_page.serving import play_in_page
from palaver.benchmarks.reports.frames import png
from palaver.core import Sampling, need
from palaver.registry import spec
from palaver.trainers.rollout.episodes import text_env

FIGURE = Path(__file__).resolve().parents[1] / "figures" / "play-battle.png"
WIDTH, HEIGHT, CHOICES = 900, 700, 6  # pixels; actions that are played before the picture is taken


def photograph(address: str) -> None:
    """Play some actions by clicks, write the picture, and leave."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        tab.goto(address)
        for _ in range(CHOICES):
            before = tab.locator(".turn.now h3").text_content()
            tab.locator(".action:not([disabled])").last.click()
            tab.locator(".turn.now h3").filter(has_not_text=before or "").wait_for()
        tab.locator(".writer input").evaluate("field => field.blur()")
        picture = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
        FIGURE.write_bytes(png(np.asarray(picture)))
        tab.get_by_role("button", name="leave").click()
        browser.close()


def main() -> None:
    """Play a battle against the reference player, and draw it."""
    need("the picture", "train", "PIL")
    battles = spec("pokemon-v1")
    env = text_env(battles.id, {"format": "gen9ou"})
    team = {"p1": make_policy("human"), "p2": make_policy("scripted:reference", scripted=battles.scripted)}
    person = threading.Thread(target=lambda: photograph(addresses[0]))
    addresses: list[str] = []

    def opened(address: str) -> None:
        addresses.append(address)
        person.start()

    with suppress(QuitError):
        play_in_page(env, team, [(env.tasks[0].id, 0)], dict.fromkeys(team, Sampling()), None, opened, print)
    person.join()
    print(FIGURE)


if __name__ == "__main__":
    main()
