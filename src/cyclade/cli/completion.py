"""`cyclade completion`: what a shell needs to complete commands, options and their choices.

The words come from the parsers themselves, so there is nothing to keep in step.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import cyclade
from cyclade.cli.arguments import with_example
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
DEVICES = ("auto", "cpu", "cuda")
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def add(commands: Any) -> None:
    """The command."""
    parser = with_example(
        commands.add_parser,
        name="completion",
        help="completion of commands and options for your shell",
        description=(
            "Print what a shell needs to complete commands, options and names. Put the line of\n"
            "your shell into its start-up file."
        ),
        example=(
            'eval "$(cyclade completion bash)"     # ~/.bashrc\n'
            '  eval "$(cyclade completion zsh)"      # ~/.zshrc, after compinit\n'
            "  cyclade completion fish | source      # ~/.config/fish/config.fish"
        ),
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="see below")
    parser.set_defaults(command=complete)


def complete(chosen: argparse.Namespace) -> None:
    """Print the script of a shell."""
    print(script(chosen.shell, chosen.whole), end="")


def script(shell: str, whole: argparse.ArgumentParser) -> str:
    """The completions of `whole` in the language of a shell."""
    found = dict(_commands(whole))
    if shell == "fish":
        return "".join(_fish(whole, found))
    cases = "\n".join(
        f"        {name}) words={shlex.quote(' '.join(_words(parser)))} ;;"
        for name, parser in found.items()
    )
    commands = shlex.quote(" ".join([*found, *_words(whole)]))
    values = "\n".join(
        f"        {option}) words={shlex.quote(' '.join(words))} ;;"
        for option, words in _options(found.values()).items()
    )
    return (_ZSH if shell == "zsh" else "") + _BASH.format(
        cases=cases, commands=commands, values=values
    )


def _commands(whole: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in whole._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _options(parsers: Iterable[argparse.ArgumentParser]) -> dict[str, tuple[str, ...]]:
    """The options that take a value, with what it may be; () where that is a file or a number."""
    return {
        option: _values(action)
        for parser in parsers
        for action in parser._actions
        for option in action.option_strings
        if action.nargs != 0
    }


def _values(action: argparse.Action) -> tuple[str, ...]:
    if "--dataset" in action.option_strings:
        return tuple(sorted(m.name.replace("_", "-") for m in iter_modules([str(DATASETS)])))
    known = {"METHOD": METHODS, "DEVICE": DEVICES}
    return known.get(action.metavar, ()) if isinstance(action.metavar, str) else ()


def _words(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The options of a parser, and what its arguments may be."""
    for action in parser._actions:
        yield from action.option_strings
        if action.choices is not None and not isinstance(action, argparse._SubParsersAction):
            yield from map(str, action.choices)


def _fish(
    whole: argparse.ArgumentParser, found: dict[str, argparse.ArgumentParser]
) -> Iterator[str]:
    helps = {
        choice.dest: choice.help or ""
        for action in whole._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    }
    for name, parser in found.items():
        first = "complete -c cyclade -n __fish_use_subcommand -f"
        yield f"{first} -a {name} -d {shlex.quote(helps.get(name, ''))}\n"
        of = f"complete -c cyclade -n '__fish_seen_subcommand_from {name}'"
        for action in parser._actions:
            what = f" -d {shlex.quote(action.help)}" if action.help else ""
            for option in action.option_strings:
                flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                if action.nargs != 0:
                    words = _values(action)
                    flag += f" -x -a {shlex.quote(' '.join(words))}" if words else " -r"
                yield f"{of} {flag}{what}\n"
            if action.choices is not None:
                yield f"{of} -f -a {shlex.quote(' '.join(map(str, action.choices)))}\n"
