from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from palaver.agents.llm.model import load
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.make_policy import make_policy
from palaver.core import ConfigError, Message, PolicyError, Request, Sampling
from tests.models import byte_tokenizer, tiny_qwen3


def one_line(error: pytest.ExceptionInfo[PolicyError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def shout(conversation: object, seed: int) -> str:
    return f"LOUD {seed}"


@pytest.mark.parametrize("name", ["random", "echo", "human"])
def test_plain_names(name: str) -> None:
    assert make_policy(name).name == name


def test_scripted_by_name_and_by_path() -> None:
    request = Request("a", (Message("user", "x"),), (5,))
    by_name = make_policy("scripted:shout", scripted={"shout": "tests.agents.test_factory:shout"})
    by_path = make_policy("scripted:tests.agents.test_factory:shout")
    assert by_name.act([request])[0][0].text == by_path.act([request])[0][0].text == "LOUD 5"
    assert by_name.name == "scripted:shout"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("scripted:shuot", "Did you mean 'shout'"),
        ("scripted:no.such.module:f", "no.such.module"),
        ("scripted:tests.agents.test_factory:nothing", "nothing"),
        ("scripted:tests.agents.test_factory:Path.sep", "Path.sep"),
        ("scripted:./x.py:f", "(module:attribute)"),
        ("hf:", "empty"),
        ("", "empty"),
        ("hf:./no/such/folder", "./no/such/folder"),
        ("/no/such/folder", "/no/such/folder"),
        ("hf:~no-such-user/x", "no model folder '~no-such-user/x'"),
        ("hf:not a name!", "not a name!"),
        ("tiny", "tiny"),
    ],
)
def test_unknown_policies_are_refused_in_one_line(name: str, says: str) -> None:
    with pytest.raises(PolicyError) as error:
        make_policy(name, scripted={"shout": "tests.agents.test_factory:shout"})
    assert says in one_line(error)


def test_an_unreachable_hub_is_named_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    start = time.monotonic()
    with pytest.raises(PolicyError) as error:
        make_policy("hf:nobody/no-such-model")
    assert "nobody/no-such-model" in one_line(error)
    assert time.monotonic() - start < 10


def test_folders_without_a_readable_model(tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as error:
        make_policy(f"hf:{tmp_path}")
    assert "config.json" in one_line(error)
    (tmp_path / "config.json").write_text("{ not json")
    with pytest.raises(PolicyError) as error:
        make_policy(str(tmp_path))
    assert str(tmp_path) in one_line(error)
    (tmp_path / "config.json").write_text('{"model_type": "no-such-type"}')
    with pytest.raises(PolicyError) as error:
        make_policy(str(tmp_path))
    assert str(tmp_path) in one_line(error)


def test_damaged_or_incomplete_weights_are_refused(tmp_path: Path) -> None:
    tiny_qwen3(layers=1).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PolicyError) as error:
        make_policy(str(tmp_path))
    assert str(tmp_path) in one_line(error)
    weights.write_bytes(whole)
    config = tmp_path / "config.json"
    plain = config.read_text()
    config.write_text(plain.replace('"num_hidden_layers": 1', '"num_hidden_layers": 2'))  # contradicts layer_types
    with pytest.raises(PolicyError) as error:
        make_policy(str(tmp_path))
    assert str(tmp_path) in one_line(error)
    config.write_text(plain.replace('"tie_word_embeddings": true', '"tie_word_embeddings": false'))
    with pytest.raises(PolicyError, match=r"lacks 1 of its weights, among them 'lm_head.weight'"):
        make_policy(str(tmp_path))


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    tiny_qwen3(layers=1).save_pretrained(tmp_path)
    with pytest.raises(PolicyError) as error:
        make_policy(str(tmp_path))
    assert str(tmp_path) in one_line(error)


def test_a_saved_model_loads_by_folder(tmp_path: Path) -> None:
    tiny_qwen3(layers=1).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    request = Request("a", (Message("user", "x"),), (0,), Sampling(max_tokens=5, temperature=0))
    bare, named = make_policy(str(tmp_path)), make_policy(f"hf:{tmp_path}")
    assert (bare.name, named.name) == (str(tmp_path), f"hf:{tmp_path}")
    assert bare.act([request]) == named.act([request])


def test_a_folder_in_the_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    tiny_qwen3(layers=1).save_pretrained(tmp_path / "model")
    byte_tokenizer().save_pretrained(tmp_path / "model")
    assert make_policy("hf:~/model").name == "hf:~/model"


@pytest.fixture
def cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache after a download that ended after config.json."""
    snapshot = tmp_path / "models--nobody--model" / "snapshots" / "abc"
    (tmp_path / "models--nobody--model" / "refs").mkdir(parents=True)
    (tmp_path / "models--nobody--model" / "refs" / "main").write_text("abc")
    snapshot.mkdir(parents=True)
    tiny_qwen3(layers=1).config.save_pretrained(snapshot)
    for module in ("huggingface_hub.constants", "huggingface_hub.file_download.constants"):
        monkeypatch.setattr(f"{module}.HF_HUB_CACHE", str(tmp_path))
    return snapshot


def test_a_download_cut_short_is_told_where_there_is_no_hub(cut_short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(PolicyError) as error:
        make_policy("hf:nobody/model")
    assert "cut short" in one_line(error)


def test_a_download_cut_short_is_taken_up(cut_short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def fetch(place: str, *, local_files_only: bool, **keywords: object):
        asked.append(local_files_only)
        if local_files_only:
            raise OSError("not all of it is here")
        return tiny_qwen3(layers=1), {"missing_keys": set()}

    monkeypatch.setattr(load, "_need_hub", lambda source: None)
    monkeypatch.setattr(load.AutoModelForCausalLM, "from_pretrained", fetch)
    monkeypatch.setattr(load.AutoTokenizer, "from_pretrained", lambda *a, **k: byte_tokenizer())
    assert make_policy("hf:nobody/model").name == "hf:nobody/model"
    assert asked == [True, False]


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'fp32'"):
        ModelOptions(dtype="fp23")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="max_prompt_tokens"):
        ModelOptions(max_prompt_tokens=0)


def test_an_unknown_device_is_refused(tmp_path: Path) -> None:
    for device in ("warp", "cuda:99"):
        with pytest.raises(PolicyError, match=device):
            make_policy("hf:x", options=ModelOptions(device=device))


def test_naming_policies_needs_no_torch() -> None:
    code = "import sys, palaver.agents.make_policy as f; f.make_policy('echo'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
