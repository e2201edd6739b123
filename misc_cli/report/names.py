"""Names that come from strangers, made safe to look at; and names that hide who it was."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Control characters (a terminal would obey them), marks that turn the direction of the text around
# them, and spaces that nobody sees. The joiners U+200C and U+200D stay: Persian and emoji use them.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]"
)
_CONTROL_PICTURES = 0x2400  # ␀, ␁, … for the first 32 characters
_DELETE = 0x7F


def visible(text: object) -> str:
    """The text with every character that does something instead of being seen shown as a sign."""
    return _UNSEEN.sub(_sign, str(text))


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return "␡" if code == _DELETE else f"⟨U+{code:04X}⟩"


def anonymous(names: Iterable[str]) -> dict[str, str]:
    """A number in place of every name, in the order given.

    The order should be one that the page shows anyway (worst first): it then tells nothing new,
    where a number by the alphabet or a hash of the name could be undone.
    """
    listed = list(names)
    width = len(str(len(listed)))
    return {name: f"worker {at:0{width}}" for at, name in enumerate(listed, 1)}
