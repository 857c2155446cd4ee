"""Objects in a user's own code, by reference: ``nets.py:MyNet`` in a file, ``package.module:build`` in a package.

To load a reference runs the code of its file. Experiments are checked and run with it; results are read without it.
"""

import os
import sys
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from entrofed.errors import ConfigError, said, unknown

FILES: dict[str, ModuleType] = {}
"""Modules made of files, by name; nobody else can import them."""
HEAP = 1 << 9
"""The flag of classes that are no part of the interpreter."""


def is_reference(name: str) -> bool:
    """Whether it is no registered name, none of which has a colon."""
    return ":" in name


def absolute(name: str, folder: Path) -> str:
    """A reference with the whole path of its file; any other name as it is.

    >>> absolute("nets.py:MyNet", Path("/home/ada"))
    '/home/ada/nets.py:MyNet'
    >>> absolute("package.module:build", Path("/home/ada")), absolute("uniform", Path("/work"))
    ('package.module:build', 'uniform')
    """
    path, _, attribute = name.rpartition(":")
    return f"{os.path.abspath(folder / os.path.expanduser(path))}:{attribute}" if path.endswith(".py") else name


def load(reference: str) -> Any:
    """The object; a ConfigError says why there is none."""
    path, _, attribute = reference.rpartition(":")
    if not path or not attribute:
        raise ConfigError(f"{reference!r}: a reference looks like 'file.py:Name' or 'package.module:Name'")
    module = _of_file(Path(path)) if path.endswith(".py") else _of_package(path)
    found: Any = module
    for step in attribute.split("."):
        if not hasattr(found, step):
            raise _missing(module, path, attribute)
        found = getattr(found, step)
    return found


def reference_of(thing: Any) -> str:
    """How a class or function is referred to; what a script or notebook defines is in ``__main__``."""
    module = FILES.get(thing.__module__)
    return f"{thing.__module__ if module is None else module.__file__}:{thing.__qualname__}"


def importable(thing: Any) -> bool:
    """Whether another process finds a class or function under its name.

    >>> importable(Path), importable(lambda: 0), importable(type(len))
    (True, False, True)
    """
    if isinstance(thing, type) and not thing.__flags__ & HEAP:
        return True
    if thing.__module__ == "__main__" or thing.__module__ in FILES:
        return False
    found: Any = sys.modules.get(thing.__module__)
    for step in thing.__qualname__.split("."):
        found = getattr(found, step, None)
    return found is thing


def _missing(module: ModuleType, path: str, attribute: str) -> ConfigError:
    if path == "__main__":
        return ConfigError(
            f"{attribute!r} was defined in a script or notebook, and is not known here: run that again, or move the "
            f"definition into a file and name it as 'file.py:{attribute}'"
        )
    names = [name for name, value in vars(module).items() if name[0] != "_" and not isinstance(value, ModuleType)]
    return unknown(f"name in {path}:", attribute, names)


def _of_file(path: Path) -> ModuleType:
    """The module of a file; the same content is run once."""
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: not readable: {error.strerror}") from None
    name = f"{path.stem}_{blake2b(bytes(path) + source, digest_size=8).hexdigest()}"
    if name not in FILES:
        module = ModuleType(name)
        module.__file__ = str(path)
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))  # files beside it can be imported, as by a script
        sys.modules[name] = module  # dataclasses look for it
        try:
            exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102 (a file that the user named)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise ConfigError(_why(str(path), error)) from error
        FILES[name] = module
    return FILES[name]


def _of_package(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"there is no module {error.name!r}: install it, put its folder on PYTHONPATH, or name a file, as in "
                f"'{name.split('.')[-1]}.py:Name'"
            ) from None
        raise ConfigError(_why(name, error)) from error
    except (Exception, SystemExit) as error:
        raise ConfigError(_why(name, error)) from error


def _why(what: str, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{what} cannot be loaded: {error.filename}, line {error.lineno}: {error.msg}"
    return f"{what} cannot be loaded: {said(error)}"
