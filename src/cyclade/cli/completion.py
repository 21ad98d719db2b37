"""`cyclade completion`: what a shell needs to complete commands, options and their choices.

The words come from the parsers themselves, so there is nothing to keep in step.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import cyclade
from cyclade.cli import Parser, command
from cyclade.experiments import METHODS

_BASH = """\
_cyclade() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} words=
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
    [ "$COMP_CWORD" -eq 1 ] && words={commands}
    case ${{COMP_WORDS[COMP_CWORD-1]}} in
{values}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _cyclade cyclade
"""
DATASETS = Path(cyclade.__file__).parent / "experiments" / "datasets"  # a file each
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def add(commands: Any) -> None:
    """The command."""
    parser = command(commands, "completion", complete)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="see below")


def complete(chosen: argparse.Namespace) -> None:
    """Completion of commands and options for your shell.

    Print what a shell needs to complete commands, options and names. Put the line of
    your shell into its start-up file.

    example:
      eval "$(cyclade completion bash)"     # ~/.bashrc
      eval "$(cyclade completion zsh)"      # ~/.zshrc, after compinit
      cyclade completion fish | source      # ~/.config/fish/config.fish
    """
    print(script(chosen.shell, chosen.whole), end="")


def script(shell: str, whole: argparse.ArgumentParser) -> str:
    """The completions of `whole` in the language of a shell."""
    (commands,) = (a for a in whole._actions if isinstance(a, argparse._SubParsersAction))
    found: dict[str, Parser] = dict(commands.choices)
    if shell == "fish":
        helps = {choice.dest: choice.help or "" for choice in commands._choices_actions}
        return "".join(
            line for name, parser in found.items() for line in _fish(name, helps[name], parser)
        )
    cases = [(name, [*parser.options(), *_places(parser)]) for name, parser in found.items()]
    values = {
        option: _values(action)
        for parser in found.values()
        for action in parser._actions
        for option in action.option_strings
        if action.nargs != 0
    }
    options = [option for action in whole._actions for option in action.option_strings]
    return (_ZSH if shell == "zsh" else "") + _BASH.format(
        cases=_cases(cases),
        commands=shlex.quote(" ".join([*found, *options])),
        values=_cases(values.items()),
    )


def _cases(words: Any) -> str:
    return "\n".join(f"        {name}) words={shlex.quote(' '.join(w))} ;;" for name, w in words)


def _values(action: argparse.Action) -> tuple[str, ...]:
    """What an option takes; () where that is a file or a number."""
    if "--dataset" in action.option_strings:
        return tuple(sorted(m.name.replace("_", "-") for m in iter_modules([str(DATASETS)])))
    known = {"METHOD": METHODS, "DEVICE": ("auto", "cpu", "cuda")}
    return known.get(action.metavar, ()) if isinstance(action.metavar, str) else ()


def _places(parser: Parser) -> list[str]:
    """What the arguments without a name may be."""
    return [str(one) for action in parser._actions for one in action.choices or ()]


def _fish(name: str, meaning: str, parser: Parser) -> Iterator[str]:
    first = "complete -c cyclade -n __fish_use_subcommand -f"
    yield f"{first} -a {name} -d {shlex.quote(meaning)}\n"
    of = f"complete -c cyclade -n '__fish_seen_subcommand_from {name}'"
    for action in parser._actions:
        what = f" -d {shlex.quote(action.help)}" if action.help else ""
        for option in action.option_strings:
            flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            if action.nargs != 0:
                words = _values(action)
                flag += f" -x -a {shlex.quote(' '.join(words))}" if words else " -r"
            yield f"{of} {flag}{what}\n"
    if _places(parser):
        yield f"{of} -f -a {shlex.quote(' '.join(_places(parser)))}\n"
