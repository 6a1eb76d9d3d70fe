"""The order of imports is one-directional, nothing heavy loads early, and the wings are never global packages."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import metadata

from tests.architecture.running import run
from tests.architecture.source import ROOT, WINGS, files, imports, module, unit

BELOW = {
    "core": set(),
    "registry": {"core"},
    "utils": {"core", "registry"},
    "envs": {"core", "registry", "utils"},
    "agents": {"core", "utils"},
    "trainers": {"core", "registry", "utils", "envs", "agents"},
    "benchmarks": {"core", "registry", "utils", "envs", "agents", "trainers"},
    "api": {"core", "registry", "utils", "envs", "agents", "trainers", "benchmarks"},
    "cli": {"core", "registry", "utils", "envs", "agents", "trainers", "benchmarks"},
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BROUGHT = {
    "pydantic_core": "pydantic",
    "markupsafe": "jinja2",
    "h11": "uvicorn",
    "sympy": "reasoning_gym",
    "IPython": "ipykernel",
}


def test_the_order_of_imports():
    wrong = []
    for path in files():
        here = unit(module(path))
        for name in imports(path):
            if name.split(".")[0] == "palaver" and unit(name) not in BELOW[here] | {here}:
                wrong.append(f"{path} ({here}) imports {name}")
    assert wrong == []


def test_the_order_has_no_circle():
    placed: set[str] = set()
    while len(placed) < len(BELOW):
        free = {name for name, below in BELOW.items() if below <= placed} - placed
        assert free, f"a circle among {set(BELOW) - placed}"
        placed |= free
    assert "agents" not in BELOW["envs"]
    assert "envs" not in BELOW["agents"]


def test_what_is_imported_is_declared():
    """In the dependencies or an extra; a library that another one always brings counts as that one."""
    owners = metadata.packages_distributions() | {"poke_env": ["poke-env"]}
    lines = [*PROJECT["dependencies"], *(line for part in PROJECT["optional-dependencies"].values() for line in part)]
    declared = {_canonical(re.match(r"[\w.-]+", line)[0]) for line in lines}
    used = {name.partition(".")[0] for path in files() for name in imports(path)} - sys.stdlib_module_names
    used = {BROUGHT.get(name, name) for name in used} - {"palaver"}
    assert {name for name in used if not {*map(_canonical, owners.get(name, [name]))} & declared} == set()


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_matplotlib_stays_in_the_drawing_layers():
    """Figures are drawn by one module, worlds by `envs/minecraft`."""
    using = {str(path) for path in files() if any(name.split(".")[0] == "matplotlib" for name in imports(path))}
    assert using == {"benchmarks/reports/charts.py", "envs/minecraft/rendering.py"}


def test_nothing_imports_a_wing_by_its_bare_name():
    everything = [*files(), *(path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py"))]
    assert [f"{path}: {name}" for path in everything for name in imports(path) if name.split(".")[0] in WINGS] == []


def test_torch_is_not_needed_to_play():
    code = """
import sys
for heavy in ("torch", "transformers", "matplotlib", "datasets", "tensorboard", "accelerate"):
    sys.modules[heavy] = None  # importing it raises
import palaver
for id in palaver.specs():
    env = palaver.make(id)
    env.reset(seed=0)
    env.step({agent: "hello" for agent in env.agents})
    texts = palaver.spec(id).demonstrations
    assert not texts or palaver.registry.resolve(texts)(8, 0)
    print(id)
"""
    assert {"arxiv-v0", "tldr-v0", "echo-v0"} <= set(run("-c", code).split())


def test_pettingzoo_knows_every_id_in_a_new_process():
    """PettingZoo loads no plug-ins: `import palaver` alone must register all ids, and may load no torch."""
    code = """
import sys
import palaver, pettingzoo
from pettingzoo.env_registry import registration
assert not {name for name in sys.modules if name.startswith("palaver.envs.") and name != "palaver.envs.catalogue"}
ids = [id for id in registration.parallel_registry if id.startswith("palaver/")]
made = {id: type(pettingzoo.make("parallel", id)) for id in ids}
assert made == {f"palaver/{id}": type(palaver.make(id)) for id in palaver.specs()}
print(len(made) >= 16, "torch" in sys.modules)
"""
    assert run("-c", code) == "True False\n"


def test_pettingzoo_makes_one_id_in_a_new_process():
    code = "import palaver, pettingzoo; print(pettingzoo.make('parallel', 'palaver/arxiv-v0').possible_agents)"
    assert run("-c", code) == "['background', 'method']\n"


def test_every_environment_module_loads_without_torch():
    names = [module(path) for path in files() if path.parts[0] == "envs"]
    code = f"""
import importlib, sys
sys.modules["torch"] = None
for name in {names!r}:
    importlib.import_module(name)
print(len({names!r}))
"""
    assert run("-c", code) == f"{len(names)}\n"


def test_the_command_line_starts_without_torch():
    code = (
        "import sys, palaver.cli, palaver.trainers.config.run; "
        "print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    )
    assert run("-c", code) == "False False\n"


def test_wings_are_not_global_packages(tmp_path):
    code = f"from importlib.util import find_spec; print([w for w in {WINGS!r} if find_spec(w)])"
    assert run("-c", code, cwd=tmp_path) == "[]\n"


def test_another_distribution_keeps_its_name(tmp_path):
    """`agents` is the import name of a well-known distribution; in our repository it must still be theirs."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text("whose = 'theirs'\n")
    code = "import agents, palaver.agents.base.policy as ours; print(agents.whose, ours.__name__)"
    assert run("-c", code, cwd=ROOT, path=tmp_path) == "theirs palaver.agents.base.policy\n"


def test_spawned_workers_import(tmp_path):
    script = tmp_path / "spawn.py"
    script.write_text(
        "import multiprocessing\n"
        "def work(id):\n"
        "    import palaver\n"
        "    return palaver.make(id).metadata['name']\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(work, ['echo-v0']))\n"
    )
    assert run(str(script), cwd=tmp_path) == "['echo_v0']\n"
