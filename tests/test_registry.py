"""Environments by name: one registry with PettingZoo's, mistakes named, nothing built before it is asked for."""

from __future__ import annotations

import dataclasses

import gymnasium
import pettingzoo
import pytest
from pettingzoo.env_registry import registration

import palaver
from palaver import registry
from palaver.core import ConfigError, TaskError
from palaver.registry import NAMESPACE, Spec, agent_ids, resolve

SHIPPED = ("arxiv-v0", "echo-v0", "matrix-v1", "tldr-v0")


class Toy(pettingzoo.ParallelEnv):
    metadata = {"name": "toy_v0"}  # noqa: RUF012 - as PettingZoo writes it

    def __init__(self, colour="red", size=1):
        self.colour, self.size = colour, size


def open_ended(**keywords):
    toy = Toy()
    toy.keywords = keywords
    return toy


@pytest.fixture
def name(request):
    """A free id; what is registered under it is forgotten after the test."""
    id = getattr(request, "param", "toy-v0")
    yield id
    spec = registry._SPECS.pop(id, None)
    for known in (registration.parallel_registry, registration.aec_registry):
        known.pop(f"{NAMESPACE}/{id}", None)
    for agent_id in agent_ids(spec).values() if spec else ():
        gymnasium.registry.pop(agent_id)


def test_shipped_environments_are_listed_by_id():
    found = palaver.specs()
    assert set(SHIPPED) <= set(found)
    assert list(found) == sorted(found)
    assert all(spec.id == id for id, spec in found.items())


def test_specs_is_a_copy():
    palaver.specs().clear()
    assert set(SHIPPED) <= set(palaver.specs())


@pytest.mark.parametrize("id", SHIPPED)
def test_a_spec_says_what_it_is(id):
    spec = palaver.spec(id)
    assert spec.summary.endswith(".")
    assert spec.max_reward > 0
    assert spec.turns >= 1
    assert len(set(spec.agents)) == len(spec.agents) >= 1
    assert spec.dataset == "" or spec.dataset.startswith("hf:")
    for function in spec.scripted.values():
        assert callable(resolve(function))
    assert {"tasks", "agents", "render_mode"} <= set(spec.keywords())
    assert "self" not in spec.keywords()
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.id = "other"


@pytest.mark.parametrize("id", ["arxiv-v0", "palaver/arxiv-v0", "arxiv_v0"])
def test_ids_are_understood_in_their_usual_spellings(id):
    assert palaver.spec(id) is palaver.specs()["arxiv-v0"]


@pytest.mark.parametrize("id", SHIPPED)
def test_pettingzoo_makes_the_same_class(id):
    ours, theirs = palaver.make(id), pettingzoo.make("parallel", f"{NAMESPACE}/{id}")
    assert type(ours) is type(theirs)
    assert ours.metadata == theirs.metadata


def test_pettingzoo_takes_our_keywords():
    assert pettingzoo.make("parallel", "palaver/echo-v0", agents=3).possible_agents == ["a1", "a2", "a3"]


def test_make_passes_keywords_on():
    assert palaver.make("echo-v0", agents=1).possible_agents == ["a1"]
    assert palaver.make("arxiv-v0", tasks="sample[:2]").source == "sample[:2]"


@pytest.mark.parametrize("id", ["arxive-v0", "arxiv-v1", "arxiv"])
def test_an_unknown_id_is_refused_with_the_nearest(id):
    with pytest.raises(ConfigError, match=f"^there is no environment '{id}'. Did you mean 'arxiv-v0'") as caught:
        palaver.make(id)
    assert "\n" not in str(caught.value)


def test_an_unknown_keyword_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"^arxiv-v0 has no keyword 'lenght'. Did you mean 'length'"):
        palaver.make("arxiv-v0", lenght=[1, 2])


def test_an_environments_own_errors_pass_through():
    with pytest.raises(TaskError):
        palaver.make("arxiv-v0", tasks="no such file.jsonl")


def test_register_and_make(name):
    spec = palaver.register(Spec(name, Toy, agents=("x",), kwargs={"size": 5}))
    assert palaver.spec(name) is spec
    made = palaver.make(name, colour="blue")
    assert isinstance(made, Toy)
    assert (made.colour, made.size) == ("blue", 5)
    assert palaver.make(name, size=6).size == 6
    assert f"{NAMESPACE}/{name}" in registration.parallel_registry
    assert set(spec.keywords()) == {"colour", "size"}
    with pytest.raises(ConfigError, match=f"{name} has no keyword 'color'. Did you mean 'colour'"):
        palaver.make(name, color="blue")


@pytest.mark.parametrize("name", ["my_view-v0", "my_v0"], indirect=True)
def test_an_id_with_an_underscore_is_found_as_it_was_given(name):
    spec = palaver.register(Spec(name, Toy))
    assert palaver.spec(name) is palaver.spec(f"palaver/{name}") is spec
    assert isinstance(palaver.make(name), Toy)


@pytest.mark.parametrize("name", ["my_view-v12"], indirect=True)
def test_only_the_version_may_be_written_with_an_underscore(name):
    assert palaver.register(Spec(name, Toy)) is palaver.spec("my_view_v12")


def test_a_path_is_loaded_when_it_is_made(name):
    palaver.register(Spec(name, "palaver.envs.echo.env:EchoEnv"))
    assert type(palaver.make(name)) is type(palaver.make("echo-v0"))


def test_an_id_cannot_be_taken_twice(name):
    first = palaver.register(Spec(name, Toy))
    with pytest.raises(ConfigError, match=f"^the environment id '{name}' is already registered"):
        palaver.register(Spec(name, open_ended))
    assert palaver.spec(name) is first
    assert isinstance(palaver.make(name), Toy)


def test_a_registered_id_is_forgotten_with_its_test():
    assert "toy-v0" not in palaver.specs()


def test_a_shipped_id_cannot_be_taken():
    with pytest.raises(ConfigError, match="'echo-v0' is already registered"):
        palaver.register(Spec("echo-v0", Toy))


def test_an_open_ended_creator_takes_any_keyword(name):
    palaver.register(Spec(name, open_ended, kwargs={"a": 1}))
    assert palaver.make(name, anything=2).keywords == {"a": 1, "anything": 2}


@pytest.mark.parametrize("path", ["palaver.nothing:x", "palaver.core:Nothing", "no colon", "", ":x"])
def test_resolve_refuses_in_one_line(path):
    with pytest.raises(ConfigError, match=r"^cannot load '") as caught:
        resolve(path)
    assert "\n" not in str(caught.value)


def test_resolve():
    assert resolve("palaver.core:Sampling") is palaver.Sampling
