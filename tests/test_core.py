"""The shared vocabulary: records survive JSON, seeds are the same everywhere, bad settings are refused."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import (
    FORMAT,
    CheckpointError,
    Completion,
    ConfigError,
    PalaverError,
    PolicyError,
    Request,
    Sampling,
    TaskError,
    did_you_mean,
    load_attribute,
    stable_seed,
)
from palaver.episodes import Episode, Turn

SAID = Completion("héllo \u2028 ✓", (1, 2, 3), (7, 1), (-0.25, -1.5), (-0.125, -0.75), version=4, finish="length")


def _turn(index=0, rewards=(1.0, 0.5), **changes):
    values = {
        "index": index, "node": f"0/{index}", "parent": "", "group": "0", "choice": {"a": 1, "b": 0},
        "observations": {"a": "go", "b": ""}, "completions": {"a": SAID, "b": Completion("")},
        "rewards": dict(zip("ab", rewards, strict=True)),
        "components": {"a": {"length": rewards[0]}, "b": {"length": rewards[1]}}, "metrics": {"words": 2.0},
    }  # fmt: skip
    return Turn(**values | changes)


def _episode(*turns):
    return Episode("toy_v0", "task 1", 2**62, turns or (_turn(),), "terminated", {"a": "tiny", "b": "random"})


def _through_json(episode, **options):
    return Episode.from_dict(json.loads(json.dumps(episode.to_dict(**options))))


def test_an_episode_with_tokens_survives_json():
    episode = _episode(_turn(0), _turn(1, node="0/0/1", parent="0/0"))
    assert _through_json(episode, tokens=True) == episode


def test_an_episode_without_tokens_keeps_its_words_and_counts():
    record = json.loads(json.dumps(_episode().to_dict()))
    first, second = (record["turns"][0]["completions"][agent] for agent in "ab")
    assert first == {"text": SAID.text, "version": 4, "finish": "length", "tokens": 2}
    assert second["tokens"] == 0
    bare = dataclasses.replace(SAID, prompt_ids=(), token_ids=(), logprobs=(), sample_logprobs=())
    assert Episode.from_dict(record) == _episode(_turn(completions={"a": bare, "b": Completion("")}))


def test_what_was_legal_and_executed_is_recorded_where_the_environment_says_so():
    told = {"legal": {"a": ["move surf", "switch mew"]}, "executed": {"a": "move surf"}}
    episode = _episode(_turn(**told))
    record = json.loads(json.dumps(episode.to_dict()))
    assert {name: record["turns"][0][name] for name in told} == told
    assert _through_json(episode, tokens=True) == episode
    old = json.loads(json.dumps(_episode().to_dict(tokens=True)))  # as files of before, and of other environments
    assert not told.keys() & old["turns"][0].keys()
    assert Episode.from_dict(old).turns[0].executed == {}


def test_to_dict_leaves_the_episode_alone():
    episode = _episode()
    episode.to_dict()
    assert episode == _episode()
    assert episode.turns[0].completions["a"].token_ids == (7, 1)


@given(st.text(), st.lists(st.integers(0, 2**31), max_size=4), st.floats(allow_nan=False))
def test_any_text_and_number_survives_json(text, ids, number):
    said = Completion(text, token_ids=tuple(ids), logprobs=(number,))
    episode = _episode(_turn(completions={"a": said}, rewards=(number, 0.0)))
    assert _through_json(episode, tokens=True) == episode


def test_records_cannot_be_changed():
    for record, name in ((SAID, "text"), (_turn(), "rewards"), (_episode(), "turns"), (Sampling(), "top_p")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, name, None)


def test_team_reward_and_return():
    episode = _episode(_turn(0, (1.0, 0.5)), _turn(1, (0.0, 2.0)), _turn(2, (3.0, 1.0)))
    assert [turn.team_reward for turn in episode.turns] == [0.75, 1.0, 2.0]
    assert episode.team_return() == 3.75
    assert episode.team_return(0.5) == 0.75 + 0.5 * 1.0 + 0.25 * 2.0
    assert _turn(rewards=(0.0, 0.0), **{"components": {}}).team_reward == 0.0
    assert dataclasses.replace(_turn(), rewards={}).team_reward == 0.0


def test_a_request_asks_for_one_completion_by_default():
    assert len(Request("a", ()).seeds) == 1
    assert Request("a", ()).sampling == Sampling(1.0, 1.0, 0, 256, ())


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"top_p": float("nan")}, "top_p"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.01}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"max_tokens": 0}, "max_tokens"),
    ],
)
def test_sampling_refuses(values, word):
    with pytest.raises(ConfigError, match=rf"^{word} must be .*got {next(iter(values.values()))}$"):
        Sampling(**values)


def test_sampling_refuses_an_empty_stop_string():
    with pytest.raises(ConfigError, match="stop must hold no empty string"):
        Sampling(stop=("a", ""))


@pytest.mark.parametrize("path", ["./x.py:f", "..x:f", "json:nothing", "nowhere_at_all:f", "nonsense", ""])
def test_what_cannot_be_loaded_is_told_in_one_line(path):
    with pytest.raises(TaskError, match=r"^cannot load the thing '") as caught:
        load_attribute(path, "the thing ", TaskError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("values", [{"temperature": 0}, {"top_p": 1}, {"top_p": 1e-9}, {"top_k": 0}, {"max_tokens": 1}])
def test_sampling_accepts_its_limits(values):
    Sampling(**values)


def test_nearest():
    known = ["arxiv-v0", "tldr-v0", "echo-v0"]
    assert did_you_mean("arxive-v0", known) == " Did you mean 'arxiv-v0'?"
    assert did_you_mean("zzzzzz", known) == " Known: arxiv-v0, echo-v0, tldr-v0."
    assert did_you_mean("anything", []) == ""
    assert did_you_mean("", known) == " Known: arxiv-v0, echo-v0, tldr-v0."


@pytest.mark.parametrize("error", [ConfigError, TaskError, PolicyError, CheckpointError])
def test_user_errors_have_one_base(error):
    assert issubclass(error, PalaverError)
    assert not issubclass(PalaverError, ValueError | OSError)


def test_stable_seed_is_what_its_docstring_says():
    digest = hashlib.blake2b(b"0\x1frollout\x1f3", digest_size=8).digest()
    assert stable_seed(0, "rollout", 3) == int.from_bytes(digest, "big") // 2
    assert stable_seed() == int.from_bytes(hashlib.blake2b(b"", digest_size=8).digest(), "big") // 2


def test_stable_seed_is_the_same_in_every_process():
    code = "from palaver.core import stable_seed; print(stable_seed(7, 'arxiv-v0', ('é', 1.5)))"
    seen = set()
    for hash_seed in ("0", "1", "random"):
        env = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60)
        seen.add(int(done.stdout))
    assert seen == {stable_seed(7, "arxiv-v0", ("é", 1.5))}


@given(st.lists(st.text(), max_size=4))
def test_stable_seed_is_a_63_bit_number_for_any_text(keys):
    assert 0 <= stable_seed(*keys) < 2**63


def test_stable_seed_reads_lone_surrogates_and_tells_keys_apart():
    assert stable_seed("\ud800") != stable_seed("\ud801")
    assert stable_seed("a", "b") != stable_seed("ab")
    assert stable_seed("a", "b") != stable_seed("b", "a")
    assert stable_seed(1, 23) != stable_seed(12, 3)
    assert len({stable_seed("task", n) for n in range(10_000)}) == 10_000


@pytest.mark.parametrize("changes", [{"format": 1}, {"format": "x"}, {"format": None}])
def test_an_episode_of_another_format_is_refused(changes):
    record = _episode().to_dict()
    assert record["format"] == FORMAT
    with pytest.raises(CheckpointError, match="and this version of Palaver reads format 2: make it again"):
        Episode.from_dict(record | changes)
    del record["format"]
    with pytest.raises(CheckpointError, match="the episode has format 1, and"):
        Episode.from_dict(record)
