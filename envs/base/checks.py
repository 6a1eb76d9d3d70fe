"""The contract of an environment, as checks that anyone can run on their own.

    from palaver.envs.base.checks import check
    check(lambda: MyEnv())

It is stricter than PettingZoo's `parallel_api_test` and `parallel_seed_test`, which look at one step: whole episodes
are compared, in this process and in others with different hash seeds, and texts are as hostile as can be. Every check
takes `make`, a function without arguments that builds the environment, and raises AssertionError with one sentence
that names the fault.
"""

from __future__ import annotations

import faulthandler
import itertools
import json
import math
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from gymnasium.spaces import Text
from numpy.typing import NDArray

from palaver.core import ToolCall
from palaver.envs.base.env import TextEnv
from palaver.envs.base.tools import call_tools, schema_of
from palaver.envs.base.transcripts import HOSTILE, Env, as_json, babble, follow, hostile, play, steps

Make = Callable[[], Env]
PARENT = "PALAVER_CHECK_PARENT"  # set in the process that a check starts, and in all below it: the id of its parent
CHILD_S = 120.0  # for an episode in another process, beyond ten times what it takes in this one
_CHILD = "from palaver.envs.base import checks; checks.answer({seconds})"
_UNSHIPPABLE = 3
_ONE_CHILD = threading.Lock()


def check(make: Make) -> None:
    """Run every check.

    It does nothing in the process that `check_processes` starts: a module that checks its own environment where it is
    imported is imported there too, and would check without end.

    Raises:
        AssertionError: the first broken rule, in one sentence.
    """
    if PARENT in os.environ:
        return
    for single in CHECKS:
        with _harmless(f"the environment, in {single.__name__},"):
            single(make)


# --- comparing ----------------------------------------------------------------------------------------


def _same(first: list[str], second: list[str], what: str) -> None:
    for turn, (a, b) in enumerate(zip(first, second, strict=False)):
        assert a == b, f"{what}: the transcripts differ at step {turn}: {_parting(a, b)}"
    assert len(first) == len(second), f"{what}: one episode has {len(first)} entries, the other {len(second)}"


def _parting(a: str, b: str) -> str:
    at = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return f"...{a[max(0, at - 30) : at + 40]!r} against ...{b[max(0, at - 30) : at + 40]!r}"


@contextmanager
def _harmless(cause: str) -> Iterator[None]:
    """Turn any exception raised inside into an AssertionError that names its cause."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:  # the environment is somebody else's: whatever it raises is what we were looking for
        raise AssertionError(f"{cause} raised {type(error).__name__}: {error}") from error


def _named(action: object) -> str:
    # repr of a long int raises ValueError
    return repr(action)[:60] if isinstance(action, str | bytes | None) else f"of type {type(action).__name__}"


# --- the checks --------------------------------------------------------------------------------------


def check_attributes(make: Make) -> None:
    """`metadata` has name, render modes and conversation; agents are distinct names."""
    env = make()
    for key in ("name", "render_modes", "conversation"):
        assert key in env.metadata, f"metadata lacks {key!r}"
    assert env.metadata["conversation"] in ("continued", "fresh"), "metadata['conversation'] is 'continued' or 'fresh'"
    names = env.possible_agents
    assert names, "possible_agents is empty"
    assert all(isinstance(name, str) for name in names), "agents are named by strings"
    assert len(set(names)) == len(names), "possible_agents names an agent twice"
    assert env.agents == [], "agents must be empty before the first reset"


def check_spaces(make: Make) -> None:
    """Both spaces are `Text`, and the same object on every call."""
    env = make()
    for agent in env.possible_agents:
        for name in ("observation_space", "action_space"):
            space = getattr(env, name)(agent)
            assert isinstance(space, Text), f"{name}({agent!r}) is {type(space).__name__}, expected a Text space"
            assert getattr(env, name)(agent) is space, f"{name}({agent!r}) is another object on the second call"


def check_observations(make: Make) -> None:
    """Every observation of whole episodes lies in its space, also after hostile texts."""
    for actions in (babble, hostile(0), hostile(7)):
        env = make()
        observations, _ = env.reset(seed=0)
        assert set(observations) == set(env.possible_agents), "reset must observe for every agent"
        _contained(env, observations, "reset")
        for turn, _, answers in steps(env, observations, actions):
            _contained(env, answers[0], f"step {turn}")


def _contained(env: Env, observations: Mapping[str, str], when: str) -> None:
    for agent, text in observations.items():
        assert env.observation_space(agent).contains(text), (
            f"the observation of {agent!r} at {when} is not in its space"
        )


def check_determinism(make: Make) -> None:
    """The same seed and actions give the same episode, in new and used instances, by task too."""
    env = make()
    first = play(env, 5)
    _same(first, play(make(), 5), "two instances with seed 5")
    play(env, 6)
    _same(first, play(env, 5), "one instance reset twice with seed 5")
    _same(play(env, 7, options={"task": 0}), play(make(), 7, options={"task": 0}), "two instances with task 0")


def check_processes(make: Make) -> None:
    """The same episode in other processes with other values of PYTHONHASHSEED.

    `make` travels by pickle: a function of an importable module, or `functools.partial(palaver.make, "name-v0")`. One
    that cannot travel, such as a lambda or a function of a script, is checked within this process only.

    One other process runs at a time, and it cannot start another by a check. It is ended after `CHILD_S` seconds and
    ten times those that the episode took in this process, which breaks the rule too, and it ends with this process.
    """
    if PARENT in os.environ:
        return
    try:
        parcel = pickle.dumps(make)
    except (pickle.PicklingError, AttributeError, TypeError):
        return
    began = time.monotonic()
    local_steps = play(make(), 5)
    seconds = CHILD_S + 10 * (time.monotonic() - began)
    for hash_seed in ("1", "2"):
        child = _elsewhere(parcel, hash_seed, seconds)
        if child.returncode == _UNSHIPPABLE:
            return
        assert child.returncode == 0, f"another process failed: {child.stderr.decode(errors='replace')[-300:]}"
        assert child.stdout, "another process ended before the episode did"
        _same(local_steps, json.loads(child.stdout), f"this process and one with PYTHONHASHSEED={hash_seed}")


def _elsewhere(parcel: bytes, hash_seed: str, seconds: float) -> subprocess.CompletedProcess[bytes]:
    """Run `answer` in another process, the only one at this time."""
    path = os.pathsep.join(filter(None, sys.path))
    variables = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path, PARENT: str(os.getpid())}
    command = [sys.executable, "-c", _CHILD.format(seconds=seconds + 5)]
    with _ONE_CHILD:
        try:
            return subprocess.run(command, input=parcel, capture_output=True, env=variables, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"another process did not play one episode within {seconds:.0f} seconds") from None


def answer(seconds: float) -> None:
    """Play in the other process: build the environment pickled on stdin, print the transcript.

    It ends with its parent, and after `seconds` even if the parent is gone while C code holds the interpreter.
    """
    faulthandler.dump_traceback_later(seconds, exit=True)
    threading.Thread(target=_end_with, args=(int(os.environ[PARENT]),), daemon=True).start()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)  # a module may print when it is imported, which is no part of the transcript
        try:
            make: Make = pickle.load(sys.stdin.buffer)
        except (ImportError, AttributeError):
            sys.exit(_UNSHIPPABLE)
        out.write(json.dumps(play(make(), 5)))


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def check_rewards(make: Make) -> None:
    """Rewards are finite numbers and the sum of the components in `infos`, to 1e-9."""
    for actions in (babble, hostile(3)):
        env = make()
        observations, _ = env.reset(seed=1)
        for turn, _, (_, rewards, _, _, infos) in steps(env, observations, actions):
            for agent, reward in rewards.items():
                assert isinstance(reward, int | float), (
                    f"the reward of {agent!r} is {type(reward).__name__}, not a number"
                )
                assert math.isfinite(reward), f"the reward of {agent!r} at step {turn} is {reward}"
                parts = infos[agent].get("reward_components")
                assert isinstance(parts, dict), f"infos[{agent!r}] lacks reward_components after a step"
                total = math.fsum(parts.values())
                assert abs(total - reward) <= 1e-9, f"{agent!r} has reward {reward} but its components sum to {total}"


def check_infos(make: Make) -> None:
    """`infos` hold role, task_id, can_act, and after a step finite metrics, equal for all."""
    env = make()
    _, infos = env.reset(seed=2)
    assert set(infos) == set(env.possible_agents), "reset must inform every agent"
    for agent, info in infos.items():
        for key, kind in (("role", str), ("task_id", str), ("can_act", bool)):
            assert isinstance(info.get(key), kind), f"infos[{agent!r}][{key!r}] must be a {kind.__name__}"
    *_, infos = env.step(dict.fromkeys(env.agents, "yes"))
    metrics = [info.get("metrics") for info in infos.values()]
    for values in metrics:
        assert isinstance(values, dict), "infos lack metrics after a step"
        assert "illegal" in values, "the metrics lack 'illegal', the number of illegal actions"
        assert values == metrics[0], "the metrics differ between agents"
        assert all(isinstance(v, float) and math.isfinite(v) for v in values.values()), "a metric is not a finite float"


def check_hostile(make: Make) -> None:
    """No action and no call of a tool raises; an action that is no text counts as illegal."""
    env = make()
    for action in HOSTILE:
        env.reset(seed=3)
        with _harmless(f"the action {_named(action)}"):
            *_, infos = env.step(dict.fromkeys(env.agents, action))
        if action is not None and not isinstance(action, str):
            counted = [info["metrics"]["illegal"] for info in infos.values()]
            assert all(n >= 1 for n in counted), f"the action {_named(action)} is not counted as illegal"
    for agent in env.possible_agents:
        tools = env.tools(agent) if isinstance(env, TextEnv) else ()
        for tool, text in itertools.product(tools, (action for action in HOSTILE if isinstance(action, str))):
            names = json.loads(schema_of(tool).parameters)["properties"]
            with _harmless(f"the tool {tool.__name__}"):
                call_tools(tools, [ToolCall("1", tool.__name__, json.dumps(dict.fromkeys(names, text)))])
    silent = play(make(), 3, lambda _observations, _turn, _agent: None)
    _same(silent, play(make(), 3, lambda _observations, _turn, _agent: ""), "None and the empty text")
    env.reset(seed=3)
    assert set(env.step({})[0]) == set(env.possible_agents), "a step without actions must answer every live agent"


def check_fork(make: Make) -> None:
    """A fork continues like its original, and its steps do not change the original."""
    env = make()
    observations, _ = env.reset(seed=4)
    for depth in range(3):
        expected, before = follow(env.fork(), observations), (env.state(), list(env.agents))
        fork = env.fork()
        assert fork is not env, "fork returned the environment itself"
        follow(fork, observations, hostile(1))
        fork.reset(seed=99)
        assert (env.state(), list(env.agents)) == before, "acting on a fork changed its original"
        _same(
            expected, follow(env.fork(), observations), f"forks made before and after another fork acted, depth {depth}"
        )
        observations, *others = env.step({agent: babble(observations, 0, agent) for agent in env.agents})
        _same(expected[:1], [as_json([observations, *others])], f"a fork and its original, depth {depth}")
        if not env.agents:
            break
    _same(follow(env.fork(), observations), follow(env, observations), "a fork and its original to the end")
    twin = env.fork()
    assert env.reset()[1] == twin.reset()[1], "a fork draws another task than its original: copy the generator too"


def check_render(make: Make) -> None:
    """`render` (None without a mode) and `state` return texts; `close` may be called twice."""
    env = make()
    assert "ansi" in env.metadata["render_modes"], "the render mode 'ansi' must be offered"
    play(env, 0)
    picture = env.render()
    wanted = getattr(env, "render_mode", None)
    assert isinstance(picture, str) if wanted == "ansi" else wanted or picture is None, f"render() gave {type(picture)}"
    assert isinstance(env.state(), str), "state() must be a text"
    env.close()
    env.close()


def check_picture(make: Make) -> None:
    """An environment that offers `rgb_array` draws with that `render_mode`, at every turn.

    A picture is an array of bytes, (height, width, 3), of one size for the whole episode; the same state gives the same
    picture, and drawing changes nothing.
    """
    if "rgb_array" not in make().metadata["render_modes"]:
        return
    drawn, again = _pictures(make()), _pictures(make())
    for index, (one, other) in enumerate(zip(drawn, again, strict=True)):
        assert one.shape == drawn[0].shape, f"picture {index} is {one.shape}, the first was {drawn[0].shape}"
        assert np.array_equal(one, other), f"picture {index} of the same episode in another instance differs"
    env = make()
    env.render_mode = "rgb_array"
    observations, _ = env.reset(seed=8)
    expected, before = follow(env.fork(), observations), env.state()
    env.render()
    assert env.state() == before, "drawing changed the state"
    _same(expected, follow(env, observations), "an episode without a picture and one with")


def _pictures(env: Env) -> list[NDArray[np.uint8]]:
    """The pictures of an episode, of its first steps if it is long."""
    env.render_mode = "rgb_array"
    observations, _ = env.reset(seed=8)
    drawn = [_picture(env, "after reset")]
    drawn.extend(_picture(env, f"after step {turn}") for turn, *_ in itertools.islice(steps(env, observations), 4))
    assert np.array_equal(drawn[-1], env.render()), "two pictures of the same state differ"
    return drawn


def _picture(env: Env, when: str) -> NDArray[np.uint8]:
    drawn = env.render()
    assert isinstance(drawn, np.ndarray), f"render() gave {type(drawn).__name__} {when}, expected an array"
    assert drawn.dtype == np.uint8, f"the picture {when} is of {drawn.dtype}, expected uint8"
    assert drawn.shape[2:] == (3,), f"the picture {when} is of shape {drawn.shape}, expected (height, width, 3)"
    return drawn


def check_options(make: Make) -> None:
    """Unknown reset options are accepted, and a task can be chosen by its number and by its id."""
    env = make()
    with _harmless("an unknown reset option"):
        env.reset(seed=0, options={"no such option": 1})
    _, infos = env.reset(options={"task": 0})
    name = next(iter(infos.values()))["task_id"]
    _, again = env.reset(options={"task": name})
    assert next(iter(again.values()))["task_id"] == name, f"reset(options={{'task': {name!r}}}) started another task"


def check_leaving(make: Make) -> None:
    """A step answers exactly the agents alive before it; those that end never come back."""
    env = make()
    for actions in (babble, hostile(2)):
        observations, _ = env.reset(seed=6)
        assert env.agents == env.possible_agents, "after reset every agent is alive"
        for turn, alive, answers in steps(env, observations, actions):
            _, _, terminated, truncated, infos = answers
            for name, component in zip(
                ("observations", "rewards", "terminations", "truncations", "infos"), answers, strict=True
            ):
                assert set(component) == set(alive), (
                    f"{name} at step {turn} are for {sorted(component)}, alive were {alive}"
                )
            for flag in (*terminated.values(), *truncated.values()):
                assert isinstance(flag, bool), "terminations and truncations are True or False"
            left = [agent for agent in alive if not (terminated[agent] or truncated[agent])]
            assert env.agents == left, f"after step {turn} agents is {env.agents}, expected {left}"
            # the state after a truncation has a value, that of its actions where they can be listed
            for agent, info in infos.items():
                cut = truncated[agent] and not terminated[agent] and info.get("can_act")
                assert not cut or info.get("legal_actions", True), (
                    f"{agent!r} is truncated at step {turn} and may act, but its legal_actions are empty: list those "
                    "of the state after the step"
                )


def check_end(make: Make) -> None:
    """A step after the end, and one before the first reset, return five empty dictionaries."""
    env = make()
    assert tuple(env.step({})) == ({}, {}, {}, {}, {}), "a step before reset must return five empty dictionaries"
    play(env, 0)
    if not env.agents:
        late = env.step(dict.fromkeys(env.possible_agents, "more"))
        assert tuple(late) == ({}, {}, {}, {}, {}), "a step after the end must return five empty dictionaries"


CHECKS: tuple[Callable[[Make], None], ...] = (
    check_attributes,
    check_spaces,
    check_hostile,
    check_observations,
    check_determinism,
    check_processes,
    check_rewards,
    check_infos,
    check_fork,
    check_render,
    check_picture,
    check_options,
    check_leaving,
    check_end,
)
