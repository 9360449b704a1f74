"""An interrupt while the command is still being imported is one line, as later ones are.

A ``sitecustomize`` on the command's path sends a real SIGINT where a module begins to be imported:
the moments are those of a user with the fastest fingers, and do not depend on how fast the machine
is. ``PRIVALUE_INTERRUPTS`` says how many are tried in ``make long``.
"""

import os
import random
import subprocess
import sys

import pytest

MOMENTS = int(os.environ.get("PRIVALUE_INTERRUPTS", "60"))
HOOK = """
import os, signal, sys

class Interrupt:
    '''Watches imports: sends SIGINT at one of them, by name or by number; or counts them.'''

    seen = 0

    def find_spec(self, name, path=None, target=None):
        if Interrupt.seen or name == "privalue.cli":  # from here on interrupts are answered
            Interrupt.seen += 1
        if os.environ["MOMENT"] in {name, str(Interrupt.seen)}:
            os.kill(os.getpid(), signal.SIGINT)
        return None

signal.signal(signal.SIGINT, signal.default_int_handler)  # even as a job in the background
sys.meta_path.insert(0, Interrupt())
if os.environ["MOMENT"] == "count":
    import atexit
    atexit.register(lambda: sys.stderr.write(f"{Interrupt.seen}\\n"))
"""
AS_MODULE = [sys.executable, "-m", "privalue"]
AS_COMMAND = [sys.executable, "-c", "from privalue.__main__ import main; main()"]  # as pip does


@pytest.fixture(scope="module")
def hooked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hook")
    (folder / "sitecustomize.py").write_text(HOOK)
    return os.pathsep.join([str(folder), *sys.path])


def interrupted(hooked, moment, command=AS_MODULE, words=("check", "nothing.toml")):
    done = subprocess.run(
        [*command, *words],
        env={**os.environ, "PYTHONPATH": hooked, "MOMENT": str(moment)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("command", "module"),
    [
        (AS_MODULE, "privalue.errors"),
        (AS_COMMAND, "numpy"),
        (AS_MODULE, "typer"),
        (AS_MODULE, "privalue.cli.study_commands"),
        (AS_MODULE, "privalue.curator"),
    ],
    ids=["at once", "the installed command", "before", "as the command is", "late"],
)
def test_an_interrupt_while_it_is_imported_is_one_line(hooked, command, module):
    assert interrupted(hooked, module, command) == (130, "", "privalue: interrupted\n")


@pytest.mark.long
def test_an_interrupt_at_any_import_is_one_line(hooked):
    *_, count = interrupted(hooked, "count")
    chosen = random.Random(20260101).sample(range(1, int(count)), MOMENTS)
    for moment in chosen:
        found = interrupted(hooked, moment)
        assert found == (130, "", "privalue: interrupted\n"), (moment, found)


def test_a_program_that_imports_the_package_keeps_its_own_handlers(hooked):
    program = "import signal, privalue; print(signal.getsignal(2) is signal.default_int_handler)"
    found = interrupted(hooked, "none", [sys.executable, "-c", program], [])
    assert found == (0, "True\n", "")
