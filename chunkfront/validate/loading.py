"""Loading a scheduler from a text: a built-in policy's name, ``module:Class`` or ``path/to/file.py:Class``.

Whatever is wrong with the module, the class or its protocol is an `InputError` that says so in one sentence.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from chunkfront.validate.blame import described
from chunkfront.validate.protocol import as_policy_class
from heuristics.knobs import knobs_of, parse_knobs
from heuristics.policy import Policy
from heuristics.registry import ELSEWHERE, POLICIES, assignments, make_policy
from instances.errors import InputError, inside

FORMS = "a built-in policy (see `chunkfront policies`), module:Class or path/to/file.py:Class"


@dataclass(frozen=True)
class PolicySource:
    """Makes new policies, one per run.

    Parameters
    ----------
    text
        The policy as it was asked for; another process finds the same one by it.
    policy
        Its class.
    knobs
        Values of its knobs.
    file
        Where a user's class is defined; None for a built-in policy.
    """

    text: str
    policy: type[Policy]
    knobs: Mapping[str, Any] = field(default_factory=dict)
    file: str | None = None

    @classmethod
    def of(cls, policy: Policy) -> PolicySource:
        """Return the source of policies like a built-in one."""
        return cls(policy.spec, type(policy), {k.name: getattr(policy, k.name) for k in knobs_of(type(policy))})

    @property
    def label(self) -> str:
        """The text without folders, for tables and plots."""
        place, colon, rest = self.text.partition(":")
        return f"{Path(place).name}{colon}{rest}"

    def __call__(self) -> Policy:
        """Return a new policy.

        Raises
        ------
        InputError
            Where its constructor fails.
        """
        try:
            with redirect_stdout(sys.stderr):
                return self.policy(**self.knobs)
        except InputError:
            raise
        except Exception as problem:
            raise InputError(f"{self.policy.__name__}({_arguments(self.knobs)}) fails: {described(problem)}",
                             field=self.text) from problem  # fmt: skip


def names_a_class(text: str) -> bool:
    """Whether a text names a class of the user's, by module or file, and no built-in policy."""
    name, _, rest = text.strip().partition(":")
    return name.strip() not in {**POLICIES, **ELSEWHERE} and bool(rest) and "=" not in rest.partition(":")[0]


def load_policy(text: str) -> PolicySource:
    """Return the source of the policies that a text names.

    Parameters
    ----------
    text
        ``NAME[:key=value,...]`` for a built-in policy, ``module:Class[:key=value,...]`` (the working directory is
        searched too) or ``path/to/file.py:Class[:key=value,...]``. A class is a `heuristics.policy.Policy`, or any
        class with a method ``schedule(state)``: hooks that it lacks do nothing.

    Raises
    ------
    InputError
        Where there is no such policy, module or class, where it cannot be imported or made, or where it does not
        have the protocol.
    """
    text = text.strip()
    name = text.partition(":")[0].strip()
    if name in POLICIES or name in ELSEWHERE:
        return PolicySource.of(make_policy(text))
    place, class_name, settings = _split(text)
    module = _from_file(Path(place), text) if place.endswith(".py") else _from_name(place, text)
    found = as_policy_class(_attribute(module, class_name, text), text)
    with inside(class_name):
        values = parse_knobs(found, class_name, assignments(settings, class_name))
    source = PolicySource(text, found, values, getattr(module, "__file__", None) or place)
    source()  # a constructor that fails is told now
    return source


def _arguments(knobs: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in knobs.items())


def _split(text: str) -> tuple[str, str, str]:
    """Return file or module, class and settings of a text."""
    at = text.find(".py:")
    place, rest = (text[: at + 3], text[at + 4 :]) if at >= 0 else text.partition(":")[::2]
    class_name, _, settings = rest.partition(":")
    if not place.strip() or not class_name.strip() or "=" in class_name:
        known = [*POLICIES, *ELSEWHERE]
        close = get_close_matches(text.partition(":")[0], known, n=3, cutoff=0.5)
        hint = f" (did you mean {' or '.join(close)}?)" if close else ""
        raise InputError(f"expected {FORMS}, got {text!r}{hint}", field="policy")
    return place.strip(), class_name.strip(), settings


def _from_name(name: str, text: str) -> ModuleType:
    """Return a module by its name; the working directory is searched last, so that it hides no library."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    importlib.invalidate_caches()

    def load() -> ModuleType:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as problem:
            missing = problem.name or ""
            if name != missing and not name.startswith(missing + "."):
                raise  # a module that it imports is missing: that is another fault
            raise InputError(f"there is no module {name!r} (searched: installed ones and {here}); "
                             f"expected {FORMS}", field=text) from None  # fmt: skip

    return _importing(load, name, text)


def _from_file(path: Path, text: str) -> ModuleType:
    """Return the module in a file, under a name of its own; the files beside it can be imported by it."""
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}", field=text)
    path = path.resolve()
    name = f"chunkfront_user_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{str(path)!r} cannot be imported", field=text)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look it up

    def load() -> ModuleType:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
        return module

    try:
        return _importing(load, str(path), text)
    except InputError:
        del sys.modules[name]
        raise


def _importing(load: Callable[[], ModuleType], what: str, text: str) -> ModuleType:
    """Return a module; what it prints goes to stderr."""
    try:
        with redirect_stdout(sys.stderr):
            return load()
    except InputError:
        raise
    except (Exception, SystemExit) as problem:
        raise InputError(f"importing {what} fails: {described(problem)}", field=text) from problem


def _attribute(module: ModuleType, name: str, text: str) -> object:
    found = getattr(module, name, None)
    if found is not None:
        return found
    file = getattr(module, "__file__", None) or module.__name__
    classes = [key for key, value in vars(module).items()
               if inspect.isclass(value) and value.__module__ == module.__name__]  # fmt: skip
    there = f"its classes: {', '.join(classes)}" if classes else "it defines no class"
    raise InputError(f"{file} has no class {name!r}; {there}", field=text)


