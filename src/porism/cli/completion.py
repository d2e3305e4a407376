"""porism completion: what a shell needs to complete commands with Tab."""

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from porism.cli.options import Json

BASH = """\
_porism() { mapfile -t COMPREPLY < <(porism --complete "$COMP_CWORD" "${COMP_WORDS[@]}" 2>/dev/null); }
complete -o bashdefault -o default -F _porism porism
"""
ZSH = """\
#compdef porism
_porism() {
  local -a found
  found=("${(@f)$(porism --complete $((CURRENT - 1)) "${words[@]}" 2>/dev/null)}")
  if [[ -n ${found[1]} ]]; then compadd -a found; else _files; fi
}
compdef _porism porism
"""
FISH = """\
function __porism_complete
    set -l line (commandline -opc) (commandline -ct)
    porism --complete (math (count $line) - 1) $line 2>/dev/null
end
complete -c porism -a "(__porism_complete)"
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@dataclass(kw_only=True)
class CompletionCommand:
    """Print a script by which a shell completes verbs, tasks, recipes, their fields and values, and runs.

    To install it, once:

    $ echo 'eval "$(porism completion bash)"' >> ~/.bashrc
    $ echo 'eval "$(porism completion zsh)"' >> ~/.zshrc          after compinit
    $ porism completion fish > ~/.config/fish/completions/porism.fish
    """

    shell: Annotated[Positional[Literal["bash", "zsh", "fish"]], arg(metavar="bash|zsh|fish")]
    """Which shell."""
    json: Json = False
    """Print the script as one JSON line on standard output."""

    def run(self) -> int:
        from porism.cli.output import print_json

        if self.json:
            print_json({"shell": self.shell, "script": SCRIPTS[self.shell]})
        else:
            print(SCRIPTS[self.shell], end="")
        return 0
