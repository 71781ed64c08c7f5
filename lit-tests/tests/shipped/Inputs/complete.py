"""Types a command line and the tab key in an interactive shell, and prints what the shell makes of the line.

usage: complete.py bash|zsh|fish SHARE LINE...    SHARE is laid out as /usr/share is
"""

import os
import pathlib
import pty
import re
import select
import signal
import sys
import time

SHELLS = {
    # The scripts are loaded as each shell loads them; the last key shows the line.
    "bash": (["bash", "--norc", "--noprofile", "-i"],
             "for script in {share}/bash-completion/completions/*; do source $script; done\n"
             "show() {{ printf 'LINE<%s>' \"$READLINE_LINE\"; }}; bind -x '\"\\C-b\": show'; bind 'set enable-bracketed-paste off'\n"),
    "zsh": (["zsh", "-f", "-i"],
            "fpath=({share}/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -D\n"
            "show() {{ printf 'LINE<%s>' \"$BUFFER\"; }}; zle -N show; bindkey '^B' show\n"),
    "fish": (["fish", "--no-config", "-i"],
             "for script in {share}/fish/vendor_completions.d/*; source $script; end\n"
             "bind \\cb \"printf 'LINE<%s>' (commandline)\"\n"),
}
LIMIT = 60


def read_until(terminal, pattern):
    """Reads what the shell writes until it matches."""
    end, text = time.monotonic() + LIMIT, ""
    while not (match := re.search(pattern, text)):
        if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
            sys.exit(f"the shell wrote no {pattern}, but {text!r}")
        data = os.read(terminal, 65536).decode(errors="replace")
        if "\x1b[c" in data:  # fish waits until it knows what the terminal can do.
            os.write(terminal, b"\x1b[?6c")
        text += data
    return match


def completed(shell, share, line):
    arguments, setup = SHELLS[shell]
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm", HISTFILE="/dev/null")
        os.execvp(arguments[0], arguments)
    try:
        os.write(terminal, f"{setup.format(share=share)}echo lo''aded\n".encode())
        read_until(terminal, "loaded")
        os.write(terminal, f"{line}\t\x02".encode())
        return read_until(terminal, "LINE<(.*?)>").group(1)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def main(shell, share, *lines):
    for line in lines:
        print(completed(shell, pathlib.Path(share).resolve(), line))


main(*sys.argv[1:])
