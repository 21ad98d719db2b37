"""`cyclade completion`: what a shell needs to complete commands, options and their choices.

The words come from the parsers themselves, so there is nothing to keep in step.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable
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


def script(shell: str, whole: Parser) -> str:
    """The completions of `whole` in the language of a shell."""
    found: dict[str, Parser] = whole.commands.choices
    first = [*found, *whole.options()]
    cases = {name: _words(parser) for name, parser in found.items()}
    values = {
        option: _values(action)
        for parser in found.values()
        for action in parser._actions
        for option in action.option_strings
        if action.nargs != 0
    }
    if shell == "fish":
        lines = [f"-n __fish_use_subcommand -f -a {_quoted(first)}"]
        lines += [f"-n '__fish_seen_subcommand_from {c}' -a {_quoted(w)}" for c, w in cases.items()]
        lines += [f"-n '__fish_prev_arg_in {o}' -f -a {_quoted(w)}" for o, w in values.items() if w]
        return "".join(f"complete -c cyclade {line}\n" for line in lines)
    return (_ZSH if shell == "zsh" else "") + _BASH.format(
        cases=_cases(cases), commands=_quoted(first), values=_cases(values)
    )


def _words(parser: Parser) -> list[str]:
    """The options of a command, and what its arguments without a name may be."""
    return [*parser.options(), *(str(one) for a in parser._actions for one in a.choices or ())]


def _values(action: argparse.Action) -> Iterable[str]:
    """What an option takes; () where that is a file or a number."""
    if "--dataset" in action.option_strings:
        return sorted(m.name.replace("_", "-") for m in iter_modules([str(DATASETS)]))
    known = {"METHOD": METHODS, "DEVICE": ("auto", "cpu", "cuda")}
    return known.get(action.metavar, ()) if isinstance(action.metavar, str) else ()


def _cases(words: dict[str, Any]) -> str:
    return "\n".join(f"        {name}) words={_quoted(w)} ;;" for name, w in words.items())


def _quoted(words: Iterable[str]) -> str:
    return shlex.quote(" ".join(words))
