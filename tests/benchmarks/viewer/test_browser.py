"""The viewer in a real browser: clicked through, with keys, filters and hostile texts."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from palaver.benchmarks.viewer.messages import MESSAGES
from palaver.benchmarks.viewer.page import write
from palaver.benchmarks.viewer.sources import ANALYSED
from palaver.core import Completion
from palaver.envs.pokemon.env import PokemonEnv
from palaver.trainers.trajectories.files import Writer
from tests.benchmarks.viewer.made import HOSTILE, episode, save
from tests.benchmarks.viewer.test_replays import played

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect
BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
expect.set_options(timeout=20_000)  # of a busy machine
pytestmark = pytest.mark.skipif(not BROWSER, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def context():
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser.new_context(viewport={"width": 1300, "height": 900}, color_scheme="light")
        browser.close()


@pytest.fixture(scope="module")
def page_path(tmp_path_factory):
    """A debate of three agents in five turns with three siblings, a hostile episode, programs, and many more tasks."""
    folder = tmp_path_factory.mktemp("run")
    refusal = "No, it is not, and this is longer than what would be shown as rows."
    debate = [
        episode(
            "debate", {"pro": f"The answer is {n} because it is so.", "con": refusal, "judge": "The first is right."},
            {"judge": n / 4, "style": 0.5}, turns=5, group="d", reason=f"the judge likes number {n}",
        )
        for n in (1, 3, 2)
    ]  # fmt: skip
    hostile = episode(HOSTILE, {HOSTILE: HOSTILE, "b": "word " * 200_000}, {HOSTILE: 1.0}, reason=HOSTILE, group="h")
    code = episode(
        "code", {"a": "def f(x):\n    return x", "b": "def g():\n    return 1"}, group="c",
        metrics={"tests_passed": 1.0, "tests_total": 2.0}, reason="1 of 2 tests passed; it raised",
    )  # fmt: skip
    moves = episode(
        "battle", turns=6, group="b", completions={"a": Completion("move 1"), "b": Completion("jump")},
        rewards={"a": 0.5, "b": -0.5}, legal={"a": ["move 1", "move 2"]}, executed={"b": "move 2"},
    )  # fmt: skip
    save(folder / "episodes" / "eval-000020.jsonl", *debate, hostile, code, moves)
    short = {"pro": "I do not know.", "con": "Nor do I.", "judge": "Well."}
    before = episode("debate", short, {"style": 0.25}, group="d")
    save(folder / "episodes" / "eval-000000.jsonl", before)
    many = [
        episode(f"task-{n:04d}", {"a": f"words of {n}", "b": "x"}, {"style": n / 1e3}, group=str(n)) for n in range(200)
    ]
    save(folder / "episodes" / "train-000010.jsonl", *many)
    return write(folder).path


@pytest.fixture
def page(context, page_path):
    made = context.new_page()
    wrong, asked = [], []
    made.on("console", lambda message: wrong.append(message.text))
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on("dialog", lambda dialog: wrong.append(dialog.message))
    made.on("request", lambda request: asked.append(request.url.partition("#")[0]))
    made.goto(page_path.as_uri())
    yield made
    assert wrong == []
    assert set(asked) == {page_path.as_uri()}
    made.close()


def test_reading_with_keys(page, page_path):
    heading, here = page.locator("#heading"), page.locator(".row.episode.here")
    expect(page.locator("#counted")).to_have_text("207 episodes")
    expect(page.locator(".row.head").first).to_contain_text("eval 20 · 3 × 3.75 to 6.25")
    expect(heading).to_have_text("debate")
    expect(page.locator(".worth > b")).to_have_text("3.75")  # five turns of 0.25 + 0.5
    page.keyboard.press("j")
    expect(page.locator(".worth > b")).to_have_text("6.25")
    expect(here).to_have_attribute("data-id", "eval-20-1")
    assert page.url.endswith("#eval-20-1")
    expect(page.locator("article.turn")).to_have_count(5)
    expect(page.locator("#turn-0 .column")).to_have_count(3)
    expect(page.locator("#turn-0 .reason")).to_have_text("the judge likes number 3")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#turn-2")).to_have_class(re.compile("here"))
    assert page.url.endswith("#eval-20-1/t3")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("nav.turns .here")).to_have_text(re.compile("^2"))
    page.keyboard.press("]")
    expect(here).to_have_attribute("data-id", "eval-20-2")
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(here).to_have_attribute("data-id", "eval-20-0")
    page.goto(f"{page_path.as_uri()}#eval-20-4")
    expect(heading).to_have_text("code")
    expect(page.locator(".text.code")).to_have_count(2)
    expect(page.locator(".tests")).to_have_text("✓✗")


def test_siblings_and_two_side_by_side(page):
    rows = page.locator(".siblings tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_have_attribute("aria-current", "true")
    expect(rows).to_contain_text(["3.75", "6.25", "5"])  # the one shown, then the best
    expect(page.locator(".siblings thead")).to_contain_text("judge")
    expect(page.locator(".siblings > .measured")).to_have_text("paid alike: style 2.50")
    expect(rows.nth(1).locator("td.said").first.locator("ins").first).to_have_text("3")
    expect(rows.nth(1).locator("td.said").nth(1)).to_have_text("the same")
    page.locator(".others button", has_text="eval 0").first.click()
    expect(page.locator(".worth > b")).to_have_text("0.25")
    page.keyboard.press("k")
    page.keyboard.press("j")
    page.goto(page.url.partition("#")[0] + "#eval-20-0")
    page.locator("#compare").click()
    expect(page.locator(".difference tbody tr").first).to_contain_text("+2.50")  # 6.25 - 3.75
    expect(page.locator("#turn-0 del")).to_have_text(["1"])
    expect(page.locator("#turn-0 ins")).to_have_text(["3"])
    assert page.url.endswith("#eval-20-0~eval-20-1")
    page.get_by_label("episode on the right").select_option("eval-20-2")
    expect(page.locator("#turn-0 ins")).to_have_text(["2"])
    page.keyboard.press("Escape")
    expect(page.locator(".siblings")).to_be_visible()


def test_filters_and_order(page):
    counted, rows = page.locator("#counted"), page.locator(".row.episode")
    assert rows.count() < 60  # of 207: only what can be seen
    page.keyboard.press("/")
    page.keyboard.type("WORDS OF 15")
    expect(counted).to_have_text("11 of 207 episodes")  # 15 and 150 to 159
    expect(page.locator("mark").first).to_have_text("words of 15")
    page.locator("[data-filter=agent]").select_option("b")
    expect(counted).to_have_text("0 of 207 episodes")
    expect(page.locator("#view")).to_have_text("No episode fits the filters.")
    page.locator("[data-filter=agent]").select_option("")
    page.locator("#search").fill("")
    page.locator("[data-filter=task]").fill("task-")
    page.locator("[data-filter=low]").fill("0.19")
    expect(counted).to_have_text("10 of 207 episodes")
    page.locator("[data-filter=high]").fill("0.191")
    expect(counted).to_have_text("2 of 207 episodes")
    for name in ("task", "low", "high"):
        page.locator(f"[data-filter={name}]").fill("")
    page.locator("[data-filter=step]").select_option("train 10")
    page.locator("[data-filter=sort]").select_option("high")
    expect(rows.first).to_contain_text("task-0199")
    page.locator("[data-filter=sort]").select_option("low")
    expect(rows.first).to_contain_text("task-0000")
    page.locator("#list").evaluate("list => { list.scrollTop = list.scrollHeight; }")
    page.get_by_role("option", name="task-0199").click()
    expect(page.locator("#heading")).to_have_text("task-0199")
    page.locator("[data-filter=step]").select_option("")
    page.locator("[data-filter=payee]").select_option("b")
    page.locator("[data-filter=sort]").select_option("low")
    expect(rows.first).to_contain_text("battle")  # b loses it: six turns of -0.5
    expect(rows.first).to_contain_text("−3")


def test_turns_as_rows_hostile_texts_and_colours(page, page_path):
    page.goto(f"{page_path.as_uri()}#eval-20-5")
    expect(page.locator(".worth .each")).to_have_text("a +3b −3")
    expect(page.locator("tr.turn")).to_have_count(6)
    expect(page.locator("#turn-0 td").nth(1)).to_have_text("jump → move 2")
    page.locator("#turn-0 button").click()
    expect(page.locator("tr.opened:visible")).to_contain_text("battle, turn 0, for a")
    expect(page.locator("tr.opened:visible .played")).to_have_text("move 1")
    page.keyboard.press("v")
    expect(page.locator("article.turn")).to_have_count(6)
    page.goto(f"{page_path.as_uri()}#eval-20-3")
    expect(page.locator(".reason")).to_contain_text("</script><script>document.title='owned'</script><img src=x")
    expect(page.locator("main img")).to_have_count(0)
    expect(page).to_have_title(re.compile("^</script>"))
    expect(page.locator("main .clamped")).to_be_visible()
    page.get_by_role("button", name="show all").click()
    expect(page.locator(".text", has_text="more characters]")).to_be_visible()
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_css("color-scheme", "dark")
    expect(page.locator("body")).to_have_css("background-color", "rgb(17, 19, 24)")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next, previous episode")
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 400, "height": 800})
    expect(page.get_by_label("Episodes", exact=True).first).to_be_hidden()
    page.get_by_role("button", name="☰ episodes").click()
    page.get_by_role("option", name="code").click()
    expect(page.locator("#heading")).to_be_focused()
    assert page.locator("body").evaluate("body => body.scrollWidth") <= 400


@pytest.mark.usefixtures("pool")
@pytest.mark.parametrize("width", [1400, 420])
def test_a_battle_is_replayed(context, tmp_path, width):
    env = PokemonEnv("gen1ou", observation="vector")
    with Writer(tmp_path / "battles") as writer:
        writer.add(*played(env, 5)[0])
    address = write(tmp_path / "battles").path.as_uri()
    tab, faults = context.new_page(), []
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("console", lambda message: faults.append(message.text))
    tab.set_viewport_size({"width": width, "height": 900})
    tab.goto(f"{address}#e0")
    replay = tab.locator(".replay")
    expect(replay.locator(".pill")).to_contain_text(f"{env.battle.winner} player-{env.battle.winner} won")
    expect(replay.locator(".now")).to_contain_text("Start p1 ")
    replay.get_by_role("button", name="turn »").click()
    expect(replay.locator(".now b")).to_have_text("Turn 1")
    replay.locator("input").fill("100000")
    expect(replay.locator(".now")).to_contain_text(f"{env.battle.winner} won")
    loser = replay.locator(".team").nth(int(env.battle.winner == "p1"))
    expect(loser.locator(".mon.fainted")).to_have_count(6)
    replay.get_by_role("button", name="play", exact=True).click()
    expect(replay.locator(".now")).to_contain_text("Start")
    assert tab.locator("body").evaluate("body => body.scrollWidth") <= width
    assert faults == []
    tab.close()


def test_messages_of_an_analysis(context, tmp_path):
    each = {
        "returns": {"removed": -2.0, "silenced/a": -0.5},
        "changed": {"a": ["b"]},
        "messages": [{"turn": 0, "agent": "a", "readers": ["b"], "facts": ["elder near", HOSTILE]}],
    }
    (tmp_path / "metrics.jsonl").write_text('{"kind": "eval", "step": 0, "mean": 1.0, "n": 1}\n')
    (tmp_path / MESSAGES).write_text(json.dumps({"each": [each]}))
    save(tmp_path / ANALYSED, episode(turns=2))
    tab, faults = context.new_page(), []
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("console", lambda message: faults.append(message.text))
    tab.set_viewport_size({"width": 420, "height": 900})
    tab.goto(f"{write(tmp_path).path.as_uri()}#messages-0")
    expect(tab.locator(".facts").first).to_contain_text("analysis of messages")
    expect(tab.locator(".without tbody tr")).to_have_count(2)
    expect(tab.locator(".without tbody tr").nth(1)).to_contain_text("silenced a−0.50of b")
    expect(tab.locator(".message")).to_have_count(1)
    expect(tab.locator("#turn-0 .message")).to_contain_text("read by b")
    expect(tab.locator("#turn-0 .message .pill").first).to_have_text("factelder near")
    assert tab.locator("body").evaluate("body => body.scrollWidth") <= 420
    assert faults == []
    tab.close()
