"""What a process of our own does first."""

from __future__ import annotations

import io
import sys
from typing import Any

own_process = False  # set where `misc` starts; a library must not touch its host's imports


class _NoPandas:
    """An import finder for which there is no pandas."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not needed here", name=name)


def prepare_streams() -> None:
    """Help and tables on a stdout that is not UTF-8: what it cannot spell becomes a question mark.

    Data (labels, JSON) goes out as bytes of UTF-8 and is not touched by this.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def limit_arrow(threads: int) -> None:
    """Let arrow parse on so many threads; only here, for it is the whole process's affair."""
    if own_process:
        import pyarrow as pa

        pa.set_cpu_count(threads)


def load_arrow() -> None:
    """Import pyarrow and let it look for pandas in vain; whoever asks later still finds it.

    pyarrow imports pandas with its first array, only to recognise a DataFrame if it meets one. The
    command line hands it none, so in a process of our own those 0.3 s are spared.
    """
    if not own_process or "pandas" in sys.modules:
        return
    import pyarrow as pa

    finder: Any = _NoPandas
    sys.meta_path.insert(0, finder)
    try:
        pa.scalar(1)  # the first value it converts is when it looks
    finally:
        sys.meta_path.remove(finder)
