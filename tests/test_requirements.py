"""What is pinned: a run gets what it needs and no more, and everything else comes with the tools of developers."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BUILD = ("hatchling", "editables")
"""What an editable install needs besides."""


def pins(name: str) -> dict[str, str]:
    """Versions by package."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    found = [re.fullmatch(r"([\w.-]+)==([\w.]+)", line) for line in lines if not line.startswith(("#", "-r "))]
    assert all(found), "every line is a package and its version"
    return {canonicalize_name(match[1]): match[2] for match in found if match}


RUN, DEV = pins("requirements.txt"), pins("requirements-dev.txt")


def needed(requirements: list[str]) -> set[str]:
    """These packages and all that they need, as it is installed here."""
    found: set[str] = set()
    left = [Requirement(text) for text in requirements]
    while left:
        name = canonicalize_name(left.pop().name)
        if name not in found:
            found.add(name)
            inner = [Requirement(text) for text in requires(name) or ()]
            left += [one for one in inner if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def test_a_run_gets_what_it_needs_and_no_more() -> None:
    assert set(RUN) == needed([*PROJECT["dependencies"], *BUILD])


def test_developers_get_the_same_versions_and_more() -> None:
    assert "-r requirements.txt" in (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
    assert not set(RUN) & set(DEV)


def test_what_is_pinned_is_what_the_package_accepts() -> None:
    accepted = [
        *PROJECT["dependencies"],
        *(text for extra in PROJECT["optional-dependencies"].values() for text in extra),
    ]
    for requirement in map(Requirement, accepted):
        assert requirement.specifier.contains({**RUN, **DEV}[canonicalize_name(requirement.name)]), requirement
