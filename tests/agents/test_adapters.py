"""One base and an adapter per agent: what they say, together and alone, on every way of generating."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from palaver.agents.base.policy import act_batched
from palaver.agents.llm.generation.dense_decoder import DenseDecoder
from palaver.agents.llm.generation.engine import Engine
from palaver.agents.llm.generation.forward import AdapterDecoder, LibraryForward
from palaver.agents.llm.generation.hf_engine import LibraryEngine
from palaver.agents.llm.generation.kv_cache import KeyValues
from palaver.agents.llm.generation.requests import SequentialAdapters
from palaver.agents.llm.lora.layers import Lora
from palaver.agents.llm.model.inference_copy import InferenceCopy
from palaver.agents.llm.model.load import load_pretrained
from palaver.agents.llm.model.options import LoraOptions, ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.policies.lora_policy import adapted, load_adapters
from palaver.agents.llm.scoring.logprobs import response_logprobs
from palaver.agents.llm.scoring.split_head import split_head
from palaver.agents.simple import EchoPolicy
from palaver.core import Completion, ConfigError, PolicyError
from tests.agents.adapting import LORA, NAMES, asks, merged, same, shaken, stored_base, team_of, weights_of
from tests.agents.test_engine import tiny_qwen2, varied_norms, windowed
from tests.closeness import assert_same_tokens, assert_values_close
from tests.models import byte_tokenizer, tiny_gpt2, tiny_llama, tiny_qwen3

MAKES = {
    "qwen3": lambda: varied_norms(tiny_qwen3()),
    "llama": lambda: varied_norms(tiny_llama()),
    "qwen2": lambda: varied_norms(tiny_qwen2()),
    "gpt2": lambda: varied_norms(tiny_gpt2()),
    "windowed": windowed,
}
WAYS = {  # model, engine, what draws, what computes
    "qwen3": ("qwen3", "auto", Engine, AdapterDecoder),
    "llama": ("llama", "auto", Engine, AdapterDecoder),
    "qwen2": ("qwen2", "auto", Engine, AdapterDecoder),
    "gpt2": ("gpt2", "auto", Engine, LibraryForward),
    "qwen3 by transformers": ("qwen3", "transformers", LibraryEngine, None),
    "windowed": ("windowed", "transformers", LibraryEngine, None),
}


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory):
    root = tmp_path_factory.mktemp("bases")
    return lambda name: stored_base(root / name, MAKES[name])


def plain(base: str) -> torch.nn.Module:
    return load_pretrained(base, torch.device("cpu"))[0]


@pytest.mark.parametrize("way", WAYS)
def test_a_mixed_batch_says_what_each_says_alone_and_what_merged_weights_say(way: str, bases) -> None:
    """Token for token; the log-probs are those that training will compute, to 1e-5."""
    name, engine, draws, computes = WAYS[way]
    team = team_of(bases(name), engine=engine)
    host = team["a"].shared_engine
    assert type(host.generator) is draws
    assert split_head(host.model) is not None, "the search for an engine leaves no wrong answer behind"
    assert computes is None or type(host.generator.forward) is computes
    requests = asks(NAMES)
    together = act_batched([(team[request.agent], request) for request in requests])
    base, said = plain(bases(name)), set()
    whole = {agent: LLMPolicy(merged(team[agent], base), byte_tokenizer(), team[agent].options) for agent in NAMES}
    apart: list[Completion] = []
    by_merged: list[Completion] = []
    for request, answers in zip(requests, together, strict=True):
        policy = team[request.agent]
        for other, rows in ((policy, apart), (whole[request.agent], by_merged)):
            rows += other.act([request])[0]
        with policy.active() as model, torch.no_grad():
            logp, mask = response_logprobs(model, [u.prompt_ids for u in answers], [u.token_ids for u in answers])
        assert_values_close([number for u in answers for number in u.logprobs], logp[mask])
        said.add(tuple(u.token_ids for u in answers))
    for rows in (apart, by_merged):
        assert_same_tokens([u.token_ids for u in rows], [u.token_ids for answers in together for u in answers])
    assert len(said) == len(requests), "every adapter says something of its own"


def test_rows_that_leave_take_their_adapters_with_them(bases) -> None:
    """120 rows with 40 end tokens: the batch is packed again and again."""
    team = team_of(bases("qwen3"))
    for policy in team.values():
        policy.shared_engine.generator.end_ids = frozenset(range(4, 44))
    requests = asks(NAMES, ["hello", "you", "?", "more of it", "x" * 20], seeds=8)
    together = act_batched([(team[request.agent], request) for request in requests])
    lengths = {len(u.token_ids) for answers in together for u in answers}
    assert len(lengths) > 6
    alone = [u.token_ids for request in requests for u in team[request.agent].act([request])[0]]
    assert_same_tokens([u.token_ids for answers in together for u in answers], alone)


@pytest.mark.parametrize("name", ["gpt2", "windowed"])
def test_where_layers_cannot_mix_one_adapter_follows_the_other(name, bases, monkeypatch) -> None:
    mixed = team_of(bases(name), engine="transformers" if name == "windowed" else "auto")
    monkeypatch.setattr(Lora, "mixes", lambda self: False)
    team = team_of(bases(name), engine="transformers" if name == "windowed" else "auto")
    assert isinstance(team["a"].shared_engine.generator, SequentialAdapters)
    requests = asks(NAMES)
    one, other = (act_batched([(who[request.agent], request) for request in requests]) for who in (team, mixed))
    assert_same_tokens(*([u.token_ids for answers in each for u in answers] for each in (one, other)))


def test_a_layer_that_is_not_given_whole_rows_does_not_mix(bases) -> None:
    """As experts, which are given the tokens that chose them; a failed try leaves nothing behind."""
    team = team_of(bases("gpt2"))
    policy = team["a"]
    mlp = policy.model.transformer.h[0].mlp
    before, forward = policy.act(asks("a"))[0], mlp.forward
    assert policy.shared_engine.lora.mixes()
    mlp.forward = lambda x: forward(x.flatten(0, 1)).view(x.shape)
    assert not policy.shared_engine.lora.mixes()
    del mlp.forward
    assert policy.act(asks("a"))[0] == before


def test_the_own_forward_computes_as_the_librarys(bases) -> None:
    """Prompts and steps, rows with an adapter and without, in any order; biases, norms and scales are folded."""
    for name in ("qwen3", "qwen2", "llama"):
        lora = team_of(bases(name))["a"].shared_engine.lora
        forwards = [
            AdapterDecoder(lora.model, torch.float32, lora.served),
            LibraryForward(InferenceCopy(lora.model, torch.float32), lora),
        ]
        found = []
        for forward in forwards:
            ids, adapters = torch.tensor([[5, 6, 7], [5, 6, 0], [8, 9, 10], [5, 6, 7]]), [1, 2, -1, 0]
            with torch.no_grad():
                logits, layers = forward.prefill(ids, [3, 2, 3, 3], adapters)
                store = KeyValues([3, 2, 3, 3, 3], 5, ids.device, torch.float32, [*adapters, 1])
                store.insert(layers, torch.arange(5), torch.tensor([0, 1, 2, 3, 0]))
                stepped = forward.step(torch.tensor([4, 5, 6, 7, 8]), store)
                store.select(torch.tensor([3, 1]))
                found.append([logits, stepped, forward.step(torch.tensor([9, 9]), store)])
        for one, other in zip(*found, strict=True):
            assert_values_close(one, other)
        plain_logits, _ = DenseDecoder(plain(bases(name)), torch.float32).prefill(ids[2:3], [3])
        assert_values_close(found[0][0][2:3], plain_logits)  # -1 is the base


def test_adapters_of_different_shapes_share_a_base(bases, tmp_path: Path) -> None:
    shapes = {
        "a": LoraOptions(rank=2, alpha=3.0, targets=("q_proj", "down_proj")),
        "b": LoraOptions(rank=7, alpha=7.0),
        "c": LoraOptions(rank=3, alpha=9.0, targets="o_proj"),
    }
    for name, shape in shapes.items():
        team_of(bases("qwen3"), [name], shape)[name].save(tmp_path / name)
    team = load_adapters({name: str(tmp_path / name) for name in shapes}, ModelOptions(device="cpu"))
    assert len({id(policy.shared_engine) for policy in team.values()}) == 1
    requests = asks(tuple(shapes))
    together = act_batched([(team[request.agent], request) for request in requests])
    own = {agent: LLMPolicy(merged(policy, plain(bases("qwen3"))), byte_tokenizer()) for agent, policy in team.items()}
    expected = [u.token_ids for request in requests for u in own[request.agent].act([request])[0]]
    assert_same_tokens([u.token_ids for answers in together for u in answers], expected)


def test_a_head_with_an_adapter_is_served_too(bases) -> None:
    """No fused head then, nor the own forward, whose head is plain."""
    team = team_of(bases("llama"), lora=LoraOptions(rank=2, targets=("lm_head", "v_proj")))
    assert isinstance(team["a"].shared_engine.generator.forward, LibraryForward)
    requests = asks(NAMES, ["hello"])
    together = act_batched([(team[request.agent], request) for request in requests])
    own = {agent: LLMPolicy(merged(policy, plain(bases("llama"))), byte_tokenizer()) for agent, policy in team.items()}
    expected = [u.token_ids for request in requests for u in own[request.agent].act([request])[0]]
    assert_same_tokens([u.token_ids for answers in together for u in answers], expected)


def test_refresh_takes_over_one_adapter(bases) -> None:
    team = team_of(bases("qwen3"))
    requests = asks(NAMES, ["hello"])
    before = act_batched([(team[request.agent], request) for request in requests])
    shaken(team["b"], 9, by=0.3)
    after = act_batched([(team[request.agent], request) for request in requests])
    changed = [one != other for one, other in zip(before, after, strict=True)]
    assert changed == [False, True, False]
    assert [u.version for answers in after for u in answers] == [1, 1, 2, 2, 1, 1]
    fresh = LLMPolicy(merged(team["b"], plain(bases("qwen3"))), byte_tokenizer())
    assert [u.token_ids for u in fresh.act([requests[1]])[0]] == [u.token_ids for u in after[1]]


def test_new_adapters_are_drawn_by_name_and_change_nothing(bases) -> None:
    state = torch.get_rng_state()
    base, options = bases("qwen3"), ModelOptions(device="cpu")
    one, other = adapted(base, ["a", "b"], options, LORA), adapted(base, ["c", "b", "a"], options, LORA)
    later = adapted(base, ["a"], options, LORA, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    for name in ("a", "b"):
        assert same(weights_of(one[name]), weights_of(other[name]))
    assert not same(weights_of(one["a"]), weights_of(one["b"]))
    assert not same(weights_of(one["a"]), weights_of(later["a"]))
    request = asks(["a"])[0]
    own = LLMPolicy(plain(base), byte_tokenizer())
    assert [u.token_ids for u in one["a"].act([request])[0]] == [u.token_ids for u in own.act([request])[0]]
    assert torch.equal(one["a"].parameters()[0], later["a"].parameters()[0]) is False


def test_any_name_is_a_name(bases) -> None:
    """Names that no module of torch may have, and those of modules, which peft would take apart."""
    names = ["items", "a.b", "model", "layers", "lora_", "self_attn", "weight", ""]
    team = team_of(bases("qwen3"), names)
    assert list(team) == [policy.name for policy in team.values()] == names
    assert {len(policy.parameters()) for policy in team.values()} == {28}
    assert len({id(p) for policy in team.values() for p in policy.parameters()}) == 8 * 28


def test_several_hosts_and_others_speak_together(bases) -> None:
    one, other = team_of(bases("qwen3"), ["a", "b"]), team_of(bases("llama"), ["c"])
    who = {**one, **other, "d": EchoPolicy(), "e": LLMPolicy(tiny_gpt2(), byte_tokenizer())}
    requests = asks(list(who), ["hello"])
    together = act_batched([(who[request.agent], request) for request in requests])
    for request, answers in zip(requests, together, strict=True):
        assert [u.text for u in who[request.agent].act([request])[0]] == [u.text for u in answers]


def test_what_cannot_be_is_told_in_a_line(bases) -> None:
    with pytest.raises(
        PolicyError, match="'q_porj' or ends so; there are down_proj, gate_proj, k_proj, lm_head, o_proj"
    ):
        team_of(bases("qwen3"), lora=LoraOptions(targets=("v_proj", "q_porj")))
    with pytest.raises(PolicyError, match="there are c_attn, c_fc, c_proj, lm_head"):
        team_of(bases("gpt2"), lora=LoraOptions(targets="transformer"))
    with pytest.raises(PolicyError, match="no model folder"):
        adapted("/nowhere/at/all", ["a"])
    for wrong in ({"rank": 0}, {"alpha": 0.0}, {"targets": ""}, {"targets": ()}, {"targets": ("q_proj", "")}):
        with pytest.raises(ConfigError):
            LoraOptions(**wrong)
    with pytest.raises(PolicyError, match="engine='palaver' cannot serve"):
        team_of(bases("windowed"), engine="palaver")
