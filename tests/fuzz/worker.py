"""Run commands, one after the other, in a process that may die of them.

Each line of stdin is a list of arguments as JSON; each line of stdout is the exit code and what the
command wrote to stdout and stderr. Memory is limited, so that a file that asks for too much is an
error here, and not the end of the machine.
"""

import faulthandler
import json
import os
import resource
import sys
import tempfile

MEMORY = 6 << 30  # of addresses: threads and libraries take some gigabytes that they never touch


def main() -> None:
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    from privalue.cli import run

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        for line in sys.stdin:
            arguments = [os.fsdecode(bytes(word, "latin-1")) for word in json.loads(line)]
            for file in (out, err):
                file.truncate(0)
                file.seek(0)
            code = run(arguments)
            sys.stdout.flush()
            sys.stderr.flush()
            said = [file.seek(0) or file.read().decode("latin-1") for file in (out, err)]
            print(json.dumps([code, *said]), file=answers, flush=True)


if __name__ == "__main__":
    main()
