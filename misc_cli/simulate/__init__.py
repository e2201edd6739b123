"""Simulated crowds: answers of made-up workers, and the truth.

Every worker has a confusion matrix of one of eight kinds; some answer far more often than others.
All draws use uniform numbers of one seeded stream, which numpy keeps stable over versions: equal
settings give equal answers everywhere.

| kind        | given the true class, answers                                                  |
|-------------|--------------------------------------------------------------------------------|
| experts     | rightly, with a quarter of the honest workers' error                            |
| honest      | rightly with about `accuracy`; mistakes spread unevenly over the other classes  |
| biased      | like the honest, but half of the time a favourite class instead                 |
| spammers    | without reading the item: at random, each with own preferences                  |
| adversaries | with about `accuracy` the class after the true one                              |
| constants   | always one class                                                                |
| beginners   | like the honest, but two thirds as far above chance                             |
| copiers     | as one honest worker did: each repeats the answers of another                   |
"""

from misc_cli.simulate.crowd import (
    KINDS,
    Crowd,
    Simulation,
    answer_columns,
    simulate,
    truth_columns,
)

__all__ = ["KINDS", "Crowd", "Simulation", "answer_columns", "simulate", "truth_columns"]
