"""The task classifier: what can be learnt is, what is known later is not looked at, files, habits of scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tvwrl.interference.batch_tasks import read_usage
from tvwrl.interference.categories import Thresholds
from tvwrl.interference.classifier import TaskClassifier
from tvwrl.types import InputError

HAND = Thresholds((0.5, 1.5), (0.08, 0.25, 0.75, 5.0), (10.0, 60.0, 600.0))  # between what the drawn tasks use


@pytest.fixture(scope="module")
def fitted(tasks):
    return TaskClassifier(HAND).fit(tasks)


def truth(tasks):
    return HAND.classes(tasks.cpu, tasks.memory, tasks.makespan)


def test_usage_is_learnt_from_the_place_in_the_graph(fitted, draw_tasks):
    """Usage follows from the task's place in its graph, but for noise that crosses no threshold."""
    later = draw_tasks(100, 1)
    assert (fitted.predict_classes(later) == truth(later)).mean() > 0.99
    assert (fitted.predict(later) == HAND.category(later.cpu, later.memory, later.makespan)).mean() > 0.98


def test_usage_of_arriving_tasks_is_not_looked_at(fitted, draw_tasks):
    later = draw_tasks(20, 2)
    unknown = np.full(len(later), np.nan)
    blind = replace(later, cpu=unknown, memory=unknown, makespan=unknown)
    assert (fitted.predict(blind) == fitted.predict(later)).all()


def test_new_kinds_of_tasks_are_classified_once_they_were_seen(tasks, draw_tasks):
    """Graphs and names that the classifier was not fitted to, before and after it takes in jobs that had them."""

    def renamed(tasks):
        names = np.array(["New" + name for name in tasks.task], object)
        return replace(tasks, tag=tasks.tag + "new", role=tasks.role + "new", task=names)

    classifier, later = TaskClassifier(HAND).fit(tasks), renamed(draw_tasks(60, 5))
    before = (classifier.predict_classes(later) == truth(later)).all(axis=1).mean()
    weights = classifier.weights_.copy()
    classifier.extend_history(renamed(draw_tasks(150, 4)))
    after = (classifier.predict_classes(later) == truth(later)).all(axis=1).mean()
    assert before < 0.5
    assert after > 0.95
    assert (classifier.weights_ == weights).all()


def test_classes_that_never_occurred_are_never_predicted(tasks):
    """One class of makespan, two of CPU (0 and 2)."""
    few = tasks.only((tasks.cpu < 0.4) | (tasks.cpu > 2))
    one = replace(few, makespan=np.full(len(few), 5.0))
    predicted = TaskClassifier(HAND).fit(one).predict_classes(one)
    assert set(predicted[:, 2]) == {0}
    assert set(predicted[:, 0]) == {0, 2}
    assert (predicted[:, 0] == truth(one)[:, 0]).mean() > 0.99


def test_an_unfitted_classifier_refuses_to_predict_and_no_tasks_give_no_classes(fitted, tasks):
    nothing = TaskClassifier()
    for call in (nothing.predict, nothing.extend_history):
        with pytest.raises(NotFittedError, match="call fit"):
            call(tasks)
    assert fitted.predict(tasks.only(np.zeros(0, np.int64))).shape == (0,)


def test_habits_of_scikit_learn(fitted, tasks):
    assert fitted.get_params() == {"thresholds": HAND, "penalty": 0.3, "random_state": 0}
    other = clone(fitted)
    assert not hasattr(other, "weights_")
    assert (other.fit(tasks).weights_ == fitted.weights_).all()


def test_bad_input_is_refused(tasks):
    with pytest.raises(InputError, match="at least one task"):
        TaskClassifier(HAND).fit(tasks.only(np.zeros(len(tasks), bool)))
    with pytest.raises(InputError, match="penalty is 0"):
        TaskClassifier(HAND, penalty=0).fit(tasks)
    with pytest.raises(InputError, match="row 0: cpu is nan"):
        TaskClassifier(HAND).fit(replace(tasks, cpu=np.full(len(tasks), np.nan)))


@pytest.mark.real_data
def test_real_tasks_are_classified_better_than_by_their_majority(real_batch):
    """A sample of jobs, learnt from the earlier ones: well above the most frequent class in every dimension."""
    tasks = read_usage(real_batch / "ali18_usage_tasks.csv.gz")
    names = np.unique(tasks.job.astype(str))
    tasks = tasks.only(np.isin(tasks.job.astype(str), np.random.default_rng(0).choice(names, 500, replace=False)))
    later = np.isin(tasks.job, list(dict.fromkeys(tasks.job))[400:])
    known, arriving = tasks.only(~later), tasks.only(later)
    classifier = TaskClassifier().fit(known)
    usage = (arriving.cpu, arriving.memory, arriving.makespan)
    right = classifier.predict_classes(arriving) == classifier.thresholds_.classes(*usage)
    counts = classifier.history_.overall
    most = [part.max() for part in np.split(counts, [3, 8])]
    assert (right.mean(axis=0) > np.array(most) + 0.1).all()
