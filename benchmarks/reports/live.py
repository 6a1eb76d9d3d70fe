"""Live page of a run that trains, served on this machine alone.

The server reads the run folder and writes nothing.
The page asks for new lines of `metrics.jsonl` every two seconds. A last line that is missing or half written counts
when it is complete.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from palaver.benchmarks.reports import html as pages
from palaver.benchmarks.reports.charts import smoothed, window_of
from palaver.benchmarks.reports.inline import content_hash
from palaver.benchmarks.reports.palette import algorithm_look, nth_look
from palaver.benchmarks.reports.run_folder import STATUS, RunFolder, read
from palaver.benchmarks.reports.summary import max_reward, point, status
from palaver.core import CheckpointError, ConfigError
from palaver.text import one_line
from palaver.trainers.run.files import METRICS
from palaver.utils.loopback import LoopbackServer, PageHandler
from palaver.utils.run_folder import alive

POLL, GRACE = 1.0, 5.0  # seconds: between looks at the run, and for pages to fetch its end


def has_ended(run: RunFolder) -> bool:
    """Return whether a run is over; one without a status is not."""
    recorded, pid = run.state.get("status"), run.state.get("pid")
    if recorded == "running":
        return not (type(pid) is int and pid > 0 and alive(pid))
    return recorded is not None


def serve_live(folder: Path, opened: Callable[[str], object]) -> str:
    """Serve the page until the run ends, or Ctrl-C.

    Args:
        folder: of the run.
        opened: called with the address once the page is served.

    Returns:
        The last status of the run.

    Raises:
        CheckpointError: the folder is not a run folder.
        ConfigError: the run has ended already.
    """
    if has_ended(run := read(folder)):
        raise ConfigError(f"{str(folder)!r} is no longer training ({status(run).text}); read it with: palaver report")
    with LiveServer(folder) as server:
        opened(server.address)
        try:
            while not has_ended(read(folder)):
                time.sleep(POLL)
            if server.asked:
                time.sleep(GRACE)
        except KeyboardInterrupt:
            pass
    return status(read(folder)).text


def version(folder: Path) -> str:
    """Return a text that changes whenever the metrics or the status of a run do."""
    stats = [path.stat() for name in (METRICS, STATUS) if (path := folder / name).is_file()]
    return "-".join(f"{stat.st_size}.{stat.st_mtime_ns}" for stat in stats)


class LiveServer(LoopbackServer):
    """Server of one run's page.

    Args:
        folder: of the run.

    Attributes:
        asked: True once a page has asked for data.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(LiveHandler)
        self.folder, self.asked = folder, False


class LiveHandler(PageHandler):
    """Handler of the page and its data; anything else is not found."""

    server: LiveServer

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Answer with the page or its data."""
        try:
            if self.route == "":
                return self.send("text/html", page(self.server.folder))
            if self.route == "data":
                now = version(self.server.folder)
                same = parse_qs(self.query).get("seen") == [now]
                self.server.asked = True
                answer = {"same": True} if same else data(self.server.folder, now)
                return self.send("application/json", json.dumps(answer))
        except CheckpointError as error:
            return self.send_error(410, explain=str(error))
        return self.send_error(404)


def page(folder: Path) -> str:
    """HTML of the page, which fetches its data itself."""
    script = pages.script("chart.js", pages.HERE / "live.js")
    values = {
        "title": one_line(read(folder).name, 80),
        "chart_style": pages.asset("chart.css"),
        "script": script,
        "script_hash": content_hash(script),
    }
    return pages.render(pages.HERE, "live.html.j2", values)


def data(folder: Path, now: str) -> dict[str, Any]:
    """State of a run as the page reads it: status, reward curve, and every metric by step."""
    run = read(folder)
    shown = status(run)
    return {
        "version": now,
        "ended": has_ended(run),
        "status": one_line(shown.text, 200),
        "tone": shown.tone,
        "reward": _reward(run),
        "metrics": {one_line(key, 80): run.series(key) for key in run.keys("") if run.series(key)[0]},
    }


def _reward(run: RunFolder) -> dict[str, Any]:
    """Training reward and evaluations as a panel of `chart.js`."""
    curves = []
    look = algorithm_look(run.config.algorithm.name) if run.config else nth_look(0)
    steps, values = run.series("reward/mean")
    if values:
        window = window_of(len(values))
        name = "training" + (f", mean of {window} updates" if window > 1 else "")
        curves.append(_curve(name, look.color, steps, smoothed(values).tolist()))
    if points := [found for line in run.evals if (found := point(line)) is not None]:
        curve = _curve("evaluation, 95 % interval", None, [each.step for each in points], [p.mean for p in points])
        curves.append(curve | {"dots": True, "band": [[each.low for each in points], [each.high for each in points]]})
    most = max_reward(run)
    label = "reward" if most is None else f"reward of {most:g}"
    return {"title": label.capitalize(), "label": label, "axes": {"step": "updates"}, "curves": curves}


def _curve(name: str, color: int | None, steps: list[int], values: list[float]) -> dict[str, Any]:
    return {"name": name, "color": color, "dashes": [], "at": {"step": steps}, "mean": values, "band": None}
