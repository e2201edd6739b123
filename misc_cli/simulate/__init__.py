"""A crowd that does not exist: answers of simulated workers, with the truth behind them.

Every worker has a confusion matrix of one of eight kinds, and some answer far more often than
others. All randomness comes from uniform numbers of one seeded stream, whose sequence numpy keeps
from version to version: the same settings give the same answers everywhere.

| kind        | given the true class, answers                                                  |
|-------------|--------------------------------------------------------------------------------|
| experts     | rightly, with a quarter of the honest workers' error                            |
| honest      | rightly with about `accuracy`; mistakes spread unevenly over the other classes  |
| biased      | like the honest, but half of the time a favourite class instead                 |
| spammers    | without a look at the item: at random, each with own preferences                |
| adversaries | with about `accuracy` the class after the true one                              |
| constants   | one and the same class, always                                                  |
| beginners   | like the honest, but two thirds as far above chance                             |
| copiers     | nothing of their own: each gives the answers of one honest worker once more      |
"""

from misc_cli.simulate.crowd import Crowd, answer_columns, simulate, truth_columns
from misc_cli.simulate.settings import KINDS, Simulation

__all__ = ["KINDS", "Crowd", "Simulation", "answer_columns", "simulate", "truth_columns"]
