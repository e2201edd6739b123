"""What is fitted under which options: given methods as given, the rest by choice; what is raw."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from misc_cli.completers.parameters import Loop
from misc_cli.data import resources
from misc_cli.data.types import Answers, KnownLabels
from misc_cli.errors import ConfigError, ConvergenceWarning, MiscWarning
from misc_cli.run.pipeline import run
from misc_cli.run.result import RunResult
from misc_cli.run.run_record import strict
from misc_cli.run.settings import Settings, build
from misc_cli.selection.candidates import Method
from misc_cli.selection.cross_validation import calibration_of
from misc_cli.simulate import Simulation, answer_columns, simulate, truth_columns

CROWD = Simulation(workers=30, items=300, classes=3, answers_per_item=4, seed=1)


def fitted(crowd: Simulation = CROWD, /, **given: object) -> RunResult:
    """A run on a simulated crowd: fields of Settings, and options of methods."""
    own = {name: given.pop(name) for name in ("aggregator", "completer") if name in given}
    settings = Settings(**own, options=given)  # type: ignore[arg-type]
    answers = Answers(**answer_columns(simulate(crowd), ["a", "b", "c"]))
    return run(answers, build(settings), truth=truth_of(crowd))


def truth_of(crowd: Simulation) -> KnownLabels:
    known = truth_columns(simulate(crowd), ["a", "b", "c"])
    return KnownLabels(known["item"], known["label"])


def few(**given: object) -> RunResult:
    return fitted(replace(CROWD, items=50), **given)


@pytest.mark.parametrize(
    "given",
    [{"ranks": (3, 6, 3)}, {"completer": "tucker", "ranks": (3, 6, 3)}, {"completer": "lrtc"}],
    ids=["ranks", "tucker", "lrtc"],
)
def test_a_completer_that_is_settled_leaves_nothing_to_choose(given: dict[str, object]) -> None:
    """The automatic aggregator is then the baseline, and all else as if that were named."""
    found = fitted(**given)
    named = fitted(**{"completer": "tucker", **given}, aggregator="ds-em")
    assert found.fit.selection == {}
    assert found.fit.loop is not None
    assert found.fit.loop["settings"] == named.fit.loop["settings"]  # type: ignore[index]
    assert found.fit.loop["settings"]["final"] == "answers"
    assert found.methods.names["aggregator"] == "ds-em"
    assert found.fit.calibration == named.fit.calibration
    assert found.posteriors.tobytes() == named.posteriors.tobytes()


def test_majority_vote_stays_raw_and_completed_labels_rest_on_given_answers() -> None:
    alone = fitted(aggregator="mv")
    declined = fitted(aggregator="mv", completer="auto", passes=1)
    assert declined.fit.selection
    assert declined.fit.selection["chosen"] == ["mv"]
    np.testing.assert_array_equal(declined.posteriors, alone.posteriors)
    settled = {"aggregator": "ds-em", "completer": "tucker", "ranks": (3, 6, 3), "passes": 1}
    completed = fitted(**settled, final="completed")
    with pytest.warns(MiscWarning, match="only one answer per item"):
        single = fitted(replace(CROWD, items=1_200, answers_per_item=1))
    assert [outcome.fit.calibration for outcome in (alone, declined, single)] == [None] * 3
    for outcome, rests in ((completed, True), (fitted(**settled), False)):
        assert outcome.fit.calibration is not None
        assert outcome.fit.calibration.evidence == rests


def test_a_completed_run_is_calibrated_after_the_passes_that_it_made() -> None:
    """Not after those it was allowed: it stopped when its slice did."""
    found = fitted(aggregator="ds-em", completer="tucker", ranks=(2, 3, 3), passes=60)
    assert found.fit.loop is not None
    assert 3 < found.fit.loop["passes"] < 60
    aggregator, completer = found.methods.aggregator, found.methods.completer
    method = Method("ds-em", aggregator, completer, Loop(passes=found.fit.loop["passes"]))
    expected = calibration_of(method, found.memory)
    assert expected is not None
    assert found.fit.calibration == expected
    assert calibration_of(replace(method, loop=Loop(passes=60)), found.memory) != expected


def test_few_answers_take_the_options_that_many_take() -> None:
    assert few(restarts=3).fit.selection
    one_coin = few(max_iter=3, tol=0.0).fit.selection["methods"]["one-coin"]["aggregator"]
    assert (one_coin["max_iter"], one_coin["tol"]) == (3, 0.0)
    with pytest.raises(ConfigError, match="--rho applies to none of ds-em"):
        few(rho=2.0)


def test_a_completer_that_is_named_is_used_whatever_is_said_of_it() -> None:
    """With few answers the rule of thumb sets its rank; only an automatic one is declined."""
    assert few(completer="auto").fit.selection["chosen"] == ["ds-em(2)", "one-coin", "mv"]
    with pytest.warns(MiscWarning, match="cannot choose --cp-rank: the rule of thumb does"):
        by_rule = few(completer="tenals", passes=1)
    assert by_rule.fit.loop is not None
    assert by_rule.fit.loop["passes"] == 1
    assert by_rule.fit.loop["settings"]["strength"] == 0.2
    outcome = fitted(completer="tucker", passes=1)
    assert outcome.fit.selection
    completed, alone = outcome.fit.selection["chosen"]
    assert completed.endswith(" × 1")
    assert alone == "ds-em"
    weights = outcome.fit.selection["weights"]
    assert weights[completed] >= 0.2
    assert weights[completed] + weights[alone] == pytest.approx(1.0)


def test_a_chosen_completion_says_the_flags_that_repeat_its_labels() -> None:
    found = fitted(completer="tucker", aggregator="ds-em")
    said = str(found.fit.selection["why"])
    words = said.partition("the same labels: ")[2].split()
    given = dict(zip(words[::2], words[1::2], strict=True))
    ranks = tuple(map(int, given["--ranks"].split(",")))
    again = fitted(
        completer=given["--completer"],
        aggregator=given["--aggregator"],
        ranks=ranks,
        passes=int(given["--passes"]),
        final=given["--final"],
        strength=float(given["-p"].removeprefix("strength=")),
    )
    np.testing.assert_array_equal(again.decision.label, found.decision.label)
    whole = fitted(completer="tucker", aggregator="ds-em", strength=1.0)
    assert list(whole.fit.selection["weights"].values()) == [1.0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Settings(aggregator="ds-em", options={"ranks": "auto"}), r"--ranks .* no --completer"),
        (Settings(options={"cp_rank": 2}), "--cp-rank .* completer tucker takes --ranks"),
        (Settings(completer="lrtc", options={"ranks": "auto"}), "--ranks does not apply here"),
        (
            Settings(completer="lrtc", options={"shrinkage": 1.0, "subtypes": 2}),
            "--subtypes .* aggregator ds-em takes",
        ),
    ],
)
def test_an_option_that_nobody_takes_is_refused(given: Settings, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build(given)


def test_an_automatic_run_complains_as_a_named_one_does() -> None:
    """Of its last fit, not of its trials, and in processes of its own as well."""
    for crowd in (CROWD, replace(CROWD, items=1_200)):
        with pytest.warns(ConvergenceWarning) as caught:
            fitted(crowd, max_iter=2, completer="none")
        said = [str(warning.message) for warning in caught]
        assert len(said) == len(set(said))
        assert all("did not converge in 2 iterations" in text for text in said)


def test_a_chosen_completion_complains_and_is_refused_as_a_given_one_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = {"aggregator": "ds-em", "completer": "tucker", "passes": 1, "final": "completed"}
    outcome = fitted(**named)
    assert outcome.fit.calibration is not None
    assert outcome.fit.calibration.evidence
    monkeypatch.setattr(resources, "available_bytes", lambda: 1000)
    with pytest.raises(ConfigError, match="GiB are free"):
        fitted(**named)


def test_an_automatic_run_records_its_methods_and_its_error() -> None:
    outcome = fitted(tol=0.01)
    assert outcome.fit.selection
    methods = outcome.fit.selection["methods"]
    assert set(outcome.fit.selection["chosen"]) <= set(methods)
    assert (methods["ds-em"]["preset"], methods["ds-mf"]["preset"]) == ("robust", "paper")
    # the crowd errs independently: one subtype per class is all there is to find
    ebcc = methods["ebcc"]["aggregator"]
    assert (ebcc["subtypes"], ebcc["restarts"], ebcc["subtype_prior"]) == (1, 1, 0.01)
    assert methods["mmce-c"]["aggregator"]["tol"] == 0.01
    assert methods["tucker(2,4,3) × 4"]["completer"]["ranks"] == (2, 4, 3)
    assert methods["tucker(2,4,3) × 4"]["loop"]["final"] == "answers"
    assert methods["tucker(2,4,3) completed × 4"]["loop"]["final"] == "completed"
    last = {str(record["candidate"]): record for record in outcome.records if record["change"]}
    assert list(last) == outcome.fit.selection["chosen"]
    assert all(0.0 <= record["error"] < 40.0 for record in last.values())
    json.dumps(strict(outcome.fit.selection), allow_nan=False)
    assert few().fit.selection["methods"]["ds-em(2)"]["preset"] == "robust"
