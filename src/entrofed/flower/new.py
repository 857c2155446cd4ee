"""A new Flower app, ready to run: ``entrofed flower new my-app``."""

import re
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path

from entrofed.core.parts import VALIDATION
from entrofed.errors import ConfigError
from entrofed.files import write_whole
from entrofed.flower.strategy import EntroStrategy
from entrofed.methods import method_of

TEMPLATE = Path(__file__).parent / "template"
"""An app that runs as it is; a new one differs from it by names."""


def new_app(folder: Path, *, method: str = "fedentopt") -> list[Path]:
    """Write a Flower app that trains with ``method`` into a new folder; returns its files."""
    if VALIDATION in method_of(method).needs:
        raise ConfigError(
            f"method {method!r} weighs by predictions on a validation set, which a new app does not have; "
            "begin with another method, and give EntroStrategy a function predict=... later"
        )
    EntroStrategy(method)
    package = package_name(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: there is something already and nothing is overwritten; choose another folder")
    names = {
        "entrofed.flower.template": package,
        "entrofed-app": package.replace("_", "-"),
        'method = "fedentopt"': f'method = "{method}"',
    }
    written = []
    for source in sorted(path for path in TEMPLATE.iterdir() if path.is_file()):
        path = (folder / package if source.suffix == ".py" else folder) / source.name
        text = source.read_text(encoding="utf-8")
        for ours, theirs in names.items():
            text = text.replace(ours, theirs)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
        written.append(path)
    return written


def package_name(folder: Path) -> str:
    """The package of an app in that folder.

    >>> package_name(Path("apps/my-app"))
    'my_app'
    """
    package = folder.resolve().name.replace("-", "_")
    if not re.fullmatch("[a-z][a-z0-9_]*", package) or iskeyword(package):
        raise ConfigError(
            f"{folder}: the app is named after its folder, and {package!r} cannot be a package; use small letters, "
            "digits, - and _, and begin with a letter"
        )
    found = find_spec(package)
    if found is not None and found.origin is not None:
        raise ConfigError(f"{folder}: the app is named after its folder, and there is a module {package!r} already")
    return package
