"""Old names of arguments and attributes, which still work for one release, with a warning."""

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Named = TypeVar("Named", bound=Callable[..., Any])


def renamed(**names: str) -> Callable[[Named], Named]:
    """Let a function or a class take old names of arguments too: `renamed(old="new")`."""

    def decorate(function: Any) -> Any:
        if isinstance(function, type):
            function.__init__ = decorate(function.__init__)  # type: ignore[misc]
            return function

        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            for old in names.keys() & kwargs.keys():
                if names[old] in kwargs:
                    raise TypeError(f"{names[old]}: also given by its old name, {old}")
                warn(function.__qualname__.removesuffix(".__init__"), old, names[old])
                kwargs[names[old]] = kwargs.pop(old)
            return function(*args, **kwargs)

        return wrapper

    return decorate


def old_name(old: str, new: str) -> Any:
    """A property for the old name of an attribute."""

    def read(self: Any) -> Any:
        warn(type(self).__name__, old, new)
        return getattr(self, new)

    return property(read, doc=f"The old name of `{new}`.")


def old_function(old: str, new: Callable[..., Any]) -> Callable[..., Any]:
    """A function under its old name."""

    def call(*args: Any, **kwargs: Any) -> Any:
        warn(new.__module__, old, new.__name__)
        return new(*args, **kwargs)

    return call


def warn(owner: str, old: str, new: str) -> None:
    """Say what a thing is called now, to the caller of the function that calls this one."""
    text = f"{owner}: {old} is now called {new}; the old name ends with the next release"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
