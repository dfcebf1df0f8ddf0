"""Scripts of `pyebpf completion`: the tools and their options as each shell has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.cli.bpftrace_list import kinds
from pyebpf.cli.completion import ANY
from pyebpf.runtime.attach_points import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyebpf.cli.completion import Command, Option

    Commands = Mapping[str, Command]
    Writer = Callable[[Commands, Commands, Commands], str]

#: Kinds of attach points and a short name of each, which a script offers without asking.
_KINDS = [f"{each}:" for name, kind in KINDS.items() for each in (name, kind.aliases[0])]

#: The same of `pyebpf -l`.
_SCRIPT_KINDS = [f"{each}:" for each in kinds()]

_BASH = r"""# bash completion of pyebpf, written by `pyebpf completion bash`

# Sets, of a command or tool: options; valued, those with a value; operands.
_pyebpf_declared() {
    options="" valued="" operands=""
    case $1 in
@declared@
    esac
}

# Sets, of an option with a value: values.
_pyebpf_values() {
    case "$1 $2" in
@values@
    *) values="@any" ;;
    esac
}

# The words of the command line up to the cursor as they were typed: bash splits them at : and =, too.
_pyebpf_rejoin() {
    local part last="" number
    words=()
    for ((number = 0; number <= COMP_CWORD; number++)); do
        part=${COMP_WORDS[number]}
        if ((number > 1)) && [[ $part == [:=]* || $last == *[:=] ]]; then
            words[-1]+=$part
        else
            words+=("$part")
        fi
        last=$part
    done
}

_pyebpf() {
    local words current quote="" options valued operands values="" name word wanted prefix
    COMPREPLY=()
    _pyebpf_rejoin
    current=${words[-1]}
    case $current in
    [\'\"]*) quote=${current:0:1} current=${current:1} ;;
    esac
    if ((${#words[@]} <= 2)) && [[ $current != -* ]]; then
        wanted="@command"
    elif ((${#words[@]} <= 2)); then
        _pyebpf_declared @script
        wanted=$options
    else
        name=${words[1]}
        [[ $name != -* ]] || name=@script
        for word in "${words[@]:1:${#words[@]}-2}"; do
            case $name$word in
            @script-l | @script-lv | @script--list) name=@list ;;
            run*.py) name=@own ;;
            esac
        done
        _pyebpf_declared "$name"
        if [[ $operands == @tool && ${#words[@]} -gt 3 && ${words[2]} != -* ]]; then
            name=${words[2]}
            _pyebpf_declared "$name"
        fi
        if [[ " $valued " == *" ${words[-2]} "* ]]; then
            _pyebpf_values "$name" "${words[-2]}"
            wanted=$values
        elif [[ $current == -* ]]; then
            wanted=$options
        else
            wanted=$operands
        fi
    fi
    case $wanted in
    @any) ;;
    @file)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        ;;
    @command) mapfile -t COMPREPLY < <(compgen -W "@commands@ @tools@" -- "$current") ;;
    @tool) mapfile -t COMPREPLY < <(compgen -W "@tools@" -- "$current") ;;
    @program) mapfile -t COMPREPLY < <(compgen -c -- "$current" | sort -u) ;;
    @probe | @script-probe)
        if [[ $current == *:* ]]; then
            mapfile -t COMPREPLY < <("${words[0]/#\~/$HOME}" completion "${wanted#@}s" "$current" 2>/dev/null)
        elif [[ $wanted == @probe ]]; then
            mapfile -t COMPREPLY < <(compgen -W "@kinds@" -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -W "@script_kinds@" -- "$current")
        fi
        [[ ${COMPREPLY[*]} != *[:/] ]] || compopt -o nospace 2>/dev/null
        ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$wanted" -- "$current") ;;
    esac
    # What stands before the last colon is another word to readline, unless it is quoted.
    if [[ -z $quote && $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
        prefix=${current%"${current##*:}"}
        COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    fi
}

complete -F _pyebpf pyebpf
"""

_ZSH = r"""#compdef pyebpf
# zsh completion of pyebpf, written by `pyebpf completion zsh`

# Sets, of a command or tool: flags with their help; valued, those with a value; operands.
_pyebpf_declared() {
    flags=() valued=() operands=()
    case $1 in
@declared@
    esac
}

# Sets, of an option with a value: operands.
_pyebpf_values() {
    case "$1 $2" in
@values@
    (*) operands=(@any) ;;
    esac
}

_pyebpf_commands() {
    local -a described
    described=(
@commands@
    )
    _describe -t commands command described
}

_pyebpf_tools() {
    local -a described
    described=(
@tools@
    )
    _describe -t tools tool described
}

_pyebpf() {
    local name=${words[2]} word current=${${(Q)words[CURRENT]}#[\'\"]}
    local -a flags valued operands found
    if ((CURRENT == 2)) && [[ $current == -* ]]; then
        _pyebpf_declared @script
        _describe -o option flags
        return
    elif ((CURRENT == 2)); then
        _pyebpf_commands
        _pyebpf_tools
        return
    fi
    [[ $name != -* ]] || name=@script
    for word in ${words[2,CURRENT-1]}; do
        case $name$word in
        (@script-l | @script-lv | @script--list) name=@list ;;
        (run*.py) name=@own ;;
        esac
    done
    _pyebpf_declared $name
    if [[ ${operands[1]} == @tool && CURRENT -gt 3 && ${words[3]} != -* ]]; then
        name=${words[3]}
        _pyebpf_declared $name
    fi
    if ((${valued[(Ie)${words[CURRENT-1]}]})); then
        _pyebpf_values $name ${words[CURRENT-1]}
    elif [[ $current == -* ]]; then
        _describe -o option flags
        return
    fi
    case ${operands[1]} in
    (@any | '') ;;
    (@file) _files ;;
    (@command)
        _pyebpf_commands
        _pyebpf_tools
        ;;
    (@tool) _pyebpf_tools ;;
    (@program) _command_names -e ;;
    (@probe | @script-probe)
        if [[ $current == *:* ]]; then
            found=(${(f)"$(${~words[1]} completion ${operands[1]#@}s $current 2>/dev/null)"})
        elif [[ ${operands[1]} == @probe ]]; then
            found=(@kinds@)
        else
            found=(@script_kinds@)
        fi
        compadd -S '' -- ${(M)found:#*[:/]}
        compadd -- ${found:#*[:/]}
        ;;
    (*) compadd -- $operands ;;
    esac
}

if [[ ${funcstack[1]} == _pyebpf ]]; then
    _pyebpf "$@"
else
    compdef _pyebpf pyebpf
fi
"""

_FISH = r"""# fish completion of pyebpf, written by `pyebpf completion fish`

function __pyebpf_options --argument-names name --description 'Print the options of a command or tool'
    switch $name
@options@
    end
end

function __pyebpf_operands --argument-names name --description 'Print the operands of a command or tool'
    switch $name
@operands@
    end
end

function __pyebpf_values --argument-names name flag --description 'Print the values of an option, and fail without one'
    switch "$name $flag"
@values@
        case '*'
            return 1
    end
end

function __pyebpf_tools --description 'Print the tools'
    printf '%s\t%s\n' \
@tools@
end

function __pyebpf_commands --description 'Print the commands and the tools'
    printf '%s\t%s\n' \
@commands@
    __pyebpf_tools
end

function __pyebpf --description 'Print what the word at the cursor may become'
    set --local words (commandline --tokenize --current-process --cut-at-cursor)
    set --local current (commandline --current-token --cut-at-cursor | string trim --left --chars "'\"")
    set --local name $words[2]
    if test (count $words) -lt 2
        if string match --quiet -- '-*' $current
            __pyebpf_options @script
        else
            __pyebpf_commands
        end
        return
    end
    if string match --quiet -- '-*' $name
        set name @script
    end
    for word in $words[2..-1]
        switch $name$word
            case @script-l @script-lv @script--list
                set name @list
            case 'run*.py'
                set name @own
        end
    end
    set --local operands (__pyebpf_operands $name)
    if test "$operands[1]" = @tool; and test (count $words) -gt 2; and not string match --quiet -- '-*' $words[3]
        set name $words[3]
        set operands (__pyebpf_operands $name)
    end
    if set --local values (__pyebpf_values $name $words[-1])
        set operands $values
    else if string match --quiet -- '-*' $current
        __pyebpf_options $name
        return
    end
    switch "$operands[1]"
        case '' @any
        case @file
            __fish_complete_path $current
        case @command
            __pyebpf_commands
        case @tool
            __pyebpf_tools
        case @program
            __fish_complete_command
        case @probe @script-probe
            if string match --quiet -- '*:*' $current
                $words[1] completion (string sub --start 2 -- $operands[1])s $current 2>/dev/null
            else if test $operands[1] = @probe
                printf '%s\n' @kinds@
            else
                printf '%s\n' @script_kinds@
            end
        case '*'
            printf '%s\n' $operands
    end
end

complete --command pyebpf --no-files --arguments '(__pyebpf)'
"""


def _filled(template: str, **parts: str) -> str:
    for name, text in parts.items():
        template = template.replace(f"@{name}@", text)
    return template


def _flags(options: Iterable[Option]) -> str:
    return " ".join(flag for option in options for flag in option.flags)


def _valued(commands: Commands) -> list[tuple[str, Option]]:
    """The options with values that are told, with their commands."""
    return [
        (name, option)
        for name, command in commands.items()
        for option in command.options
        if option.words and option.words != (ANY,)
    ]


def bash(commands: Commands, tools: Commands, unnamed: Commands) -> str:
    """Write bash's."""
    every = {**commands, **tools, **unnamed}
    declared = [
        f'    {name}) options="{_flags(each.options)}" valued="{_flags(o for o in each.options if o.words)}" '
        f'operands="{" ".join(each.words)}" ;;'
        for name, each in every.items()
    ]
    values = [
        f'    {"|".join(_double(f"{name} {flag}") for flag in option.flags)}) values="{" ".join(option.words)}" ;;'
        for name, option in _valued(every)
    ]
    return _filled(
        _BASH,
        declared="\n".join(declared),
        values="\n".join(values),
        commands=" ".join(commands),
        tools=" ".join(tools),
        kinds=" ".join(_KINDS),
        script_kinds=" ".join(_SCRIPT_KINDS),
    )


def _double(text: str) -> str:
    return f'"{text}"'


def zsh(commands: Commands, tools: Commands, unnamed: Commands) -> str:
    """Write zsh's."""
    every = {**commands, **tools, **unnamed}

    def quoted(text: str) -> str:
        return "'" + text.replace("'", "'\\''") + "'"

    def described(name: str, text: str) -> str:
        return quoted(name.replace(":", "\\:") + ":" + text)

    def listed(some: Commands) -> str:
        return "\n".join(f"        {described(name, each.summary)}" for name, each in some.items())

    declared = []
    for name, each in every.items():
        options = "\n".join(
            f"        {described(flag, option.help)}" for option in each.options for flag in option.flags
        )
        valued = _flags(option for option in each.options if option.words)
        operands = " ".join(map(quoted, each.words))
        declared.append(
            f"    ({name})\n        flags=(\n{options}\n        )\n        valued=({valued}) operands=({operands}) ;;"
        )
    values = [
        f"    ({' | '.join(quoted(f'{name} {flag}') for flag in option.flags)}) "
        f"operands=({' '.join(map(quoted, option.words))}) ;;"
        for name, option in _valued(every)
    ]
    return _filled(
        _ZSH,
        declared="\n".join(declared),
        values="\n".join(values),
        commands=listed(commands),
        tools=listed(tools),
        kinds=" ".join(_KINDS),
        script_kinds=" ".join(_SCRIPT_KINDS),
    )


def fish(commands: Commands, tools: Commands, unnamed: Commands) -> str:
    """Write fish's."""
    every = {**commands, **tools, **unnamed}

    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def listed(some: Commands) -> str:
        return " \\\n".join(f"        {name} {quoted(each.summary)}" for name, each in some.items())

    options, operands, values = [], [], []
    for name, each in every.items():
        rows = " ".join(f"{flag} {quoted(option.help)}" for option in each.options for flag in option.flags)
        options.append(f"        case {name}\n            printf '%s\\t%s\\n' {rows}")
        if each.words:
            operands.append(f"        case {name}\n            printf '%s\\n' {' '.join(map(quoted, each.words))}")
        for option in each.options:
            if option.words:
                names = " ".join(quoted(f"{name} {flag}") for flag in option.flags)
                words = " ".join(map(quoted, option.words))
                values.append(f"        case {names}\n            printf '%s\\n' {words}")
    return _filled(
        _FISH,
        options="\n".join(options),
        operands="\n".join(operands),
        values="\n".join(values),
        commands=listed(commands),
        tools=listed(tools),
        kinds=" ".join(_KINDS),
        script_kinds=" ".join(_SCRIPT_KINDS),
    )


WRITERS: dict[str, Writer] = {"bash": bash, "zsh": zsh, "fish": fish}
"""The function that writes a shell's script."""
