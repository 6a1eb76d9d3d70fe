"""Checks that optional dependencies are installed."""

from __future__ import annotations

import importlib.util

from palaver.core import ConfigError, PolicyError


def need_plots() -> None:
    """Raise PolicyError if the libraries of reports cannot be imported."""
    try:
        import jinja2
        import matplotlib
    except ImportError as error:
        raise PolicyError(f"a report needs {error.name}; install it with: pip install 'palaver[train]'") from error
    del jinja2, matplotlib


def need_server() -> None:
    """Raise ConfigError if the libraries of the server are not installed."""
    for library in ("starlette", "uvicorn"):
        if importlib.util.find_spec(library) is None:
            raise ConfigError(f"serving needs {library}; install it with: pip install 'palaver[serve]'")
