"""Crowds that reports are tested on."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd

from misc_cli import Result, aggregate

SCRIPT = "<script>alert(1)</script>"
HOSTILE = (
    SCRIPT,
    '"><img src=x onerror=alert(2)>',
    "javascript:alert(3)",
    "bell\x07esc\x1b[31mred",
    "\u202eright to left\u202c",
    '=HYPERLINK("http://evil.example","x")',
    "+1",
    "-2",
    "@SUM(A1)",
    "' onmouseover='alert(4)",
    "</script><b>",
    "{{ 7 * 7 }}",
)


def answers(n_items: int = 120, hostile: bool = False) -> pd.DataFrame:
    """Four workers who mostly guess and two good ones; hostile: their names are attacks."""
    draw = random.Random(5)
    classes = ["bird", "cat", "dog"]
    names = [f"w{at}" for at in range(6)]
    labels = {name: name for name in classes}
    if hostile:
        names = list(HOSTILE[:6])
        labels = dict(zip(classes, (SCRIPT, "=1+1", HOSTILE[1]), strict=True))
    rows = []
    for item in range(n_items):
        truth = draw.choice(classes)
        called = HOSTILE[item] if hostile and item < len(HOSTILE) else f"item {item}"
        for at, worker in enumerate(names):
            right = draw.random() < (0.1 if at < 4 else 0.95)
            rows.append((worker, called, labels[truth if right else draw.choice(classes)]))
    return pd.DataFrame(rows, columns=["worker", "item", "label"])


def batch(n_items: int = 600, n_classes: int = 4, seed: int = 3) -> pd.DataFrame:
    """A platform's batch: ids of its kind, columns to carry, two spammers, one that never looks."""
    draw = random.Random(seed)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

    def name(first: str, length: int) -> str:
        return first + "".join(draw.choice(letters) for _ in range(length - 1))

    classes = [f"category_{at:02}_electronics_and_home" for at in range(n_classes)]
    workers = [name("A", 14) for _ in range(40)]
    right = [draw.uniform(0.5, 0.9) for _ in workers]
    rows = []
    for at in range(n_items):
        item, truth = name("3", 30), draw.choice(classes)
        address = f"https://images.example.com/batch/{item}.jpg"
        for worker in draw.sample(range(40), 5):
            said = truth if draw.random() < right[worker] else draw.choice(classes)
            said = draw.choice(classes) if worker < 2 else classes[0] if worker == 2 else said
            text = f"Text {at}, <b>as it is</b>\nand on"
            rows.append((workers[worker], item, said, address, text))
    return pd.DataFrame(rows, columns=["worker", "item", "label", "Input.url", "Input.text"])


def result(hostile: bool = False, **options: Any) -> Result:
    return aggregate(answers(hostile=hostile), aggregator="ds-em", **options)
