"""The runs of an experiment."""

from porism.training.experiment import Experiment


def test_every_recipe_meets_every_setting_and_every_seed() -> None:
    experiment = Experiment("q", "Which?", ("a", "b"), {"rate": (0.1, 0.01), "width": (8,)}, seeds=2)
    trials = list(experiment.trials(first_seed=5))
    assert len(trials) == len({trial.folder for trial in trials}) == 2 * 2 * 2
    assert {trial.seed for trial in trials} == {5, 6}
    assert trials[0].assignments == ("rate=0.1", "width=8")
    assert trials[0].folder == "a-rate=0.1-width=8-seed-5"


def test_seeds_can_be_asked_for() -> None:
    experiment = Experiment("q", "Which?", ("a",), seeds=2)
    assert [trial.seed for trial in experiment.trials(1, seeds=4)] == [1, 2, 3, 4]
