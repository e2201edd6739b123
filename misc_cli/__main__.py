"""Start and end of a process: every exit code is decided here and nowhere else.

Nothing is imported at the top but what Python has loaded anyway: an interrupt during any other
import is caught.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

# Our own blocks of items use the cores. A BLAS that also does would only get in the way, and its
# sums could depend on the number of threads. Set before anything loads numpy.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit."""
    try:
        words = list(sys.argv[1:] if arguments is None else arguments)
        import gc

        gc.set_threshold(50_000)  # imports make no garbage: 5 % of a short run's time
        from misc_cli import cleanup

        cleanup.install()
        from misc_cli.cli import startup

        startup.prepare()
        cleanup.outcome = code = run(words)
    except KeyboardInterrupt as error:
        code = _ended(error)
    from misc_cli import cleanup

    cleanup.clear_all()  # once more: a signal may have come when that began
    sys.exit(code)


def run(words: list[str]) -> int:
    """Run a command; any outcome becomes an exit code and at most one line on stderr."""
    import click

    from misc_cli import cleanup
    from misc_cli.cli import misc
    from misc_cli.errors import EXIT_DEFECT, EXIT_DONE, EXIT_USAGE, MiscError

    if "_MISC_COMPLETE" in os.environ:  # the shell asks for completions
        misc.main(words, prog_name="misc")
    try:
        code = EXIT_DONE
        try:
            with misc.make_context("misc", words or ["--help"]) as context:
                misc.invoke(context)
        except click.exceptions.Exit as ending:
            code = ending.exit_code
        cleanup.check()
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:  # a reader that left early is no error
            _abandon_stdout()
        return code
    except (KeyboardInterrupt, click.Abort) as error:
        return _ended(error)
    except click.ClickException as error:
        said = error.format_message()
        if type(error).__name__ == "NoArgsIsHelpError":  # no command; new in click 8.2
            print(said, file=sys.stderr)
            return EXIT_USAGE
        if isinstance(error, click.UsageError) and not said.endswith("?"):  # else it has a guess
            path = error.ctx.command_path if error.ctx is not None else "misc"
            said += f" (see {path} --help)"
        return _complain(said, EXIT_USAGE)
    except MiscError as error:
        return _complain(str(error), error.exit_code)
    except OSError as error:
        closed = isinstance(error, BrokenPipeError) and _nobody_reads_stdout()
        _abandon_stdout()
        if closed:
            return EXIT_DONE  # whoever read it has all it wanted
        what = f"{error.filename or 'output'}: {error.strerror or error}"
        return _complain(what, EXIT_USAGE)
    except Exception as error:
        # a library that found no room (`ulimit -v`) is not missing
        full = ("failed to map segment", "cannot allocate")
        lacks = isinstance(error, ImportError) and any(said in str(error) for said in full)
        if lacks or isinstance(error, MemoryError):
            said = "out of memory; use fewer items, smaller ranks or a pure method"
            return _complain(said, EXIT_USAGE)
        if "--verbose" in words or "-v" in words or os.environ.get("MISC_DEBUG"):
            import traceback

            traceback.print_exc()
        what = f"({type(error).__name__}: {error}); MISC_DEBUG=1 shows the traceback"
        return _complain(f"this is a defect of misc, please report it {what}", EXIT_DEFECT)
    finally:
        cleanup.clear_all()  # temporary files and locks


def _nobody_reads_stdout() -> bool:
    """Asked of the stream itself: a connection of another kind may break as well."""
    import select

    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), select.POLLOUT)
        return any(state & (select.POLLERR | select.POLLHUP) for _, state in poll.poll(0))
    except (OSError, ValueError, AttributeError):
        return False


def _abandon_stdout() -> None:
    try:
        from misc_cli.writers.output_set import abandon_stdout
    except (OSError, ImportError):
        return  # no file can be opened any more, not even a module's
    abandon_stdout()


def _complain(message: str, code: int) -> int:
    from misc_cli import cleanup
    from misc_cli.errors import printable

    cleanup.outcome = code
    import logging

    from misc_cli.cli.logs import event, told

    # one line, whatever it holds, unless it proposes a command
    first, proposal, command = told(message).partition("\n  try: ")
    line = f"{printable(' '.join(first.split()))}{proposal}{printable(command)}"
    event("error", logging.ERROR, message=line, exit_code=code)
    coloured = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    word = "\x1b[31mmisc: error:\x1b[0m" if coloured else "misc: error:"
    print(f"{word} {line}", file=sys.stderr)
    return code


def _ended(error: BaseException) -> int:
    from misc_cli import cleanup

    code, word = cleanup.ENDINGS[getattr(error, "number", 2)]  # or Python's own: SIGINT
    cleanup.outcome = code
    print(f"misc: {word}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
