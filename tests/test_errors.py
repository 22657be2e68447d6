"""Errors are also those of Python that people catch."""

from __future__ import annotations

import warnings

import pytest

from decentrl import errors
from decentrl.data.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("kind", "bases"),
    [
        (errors.InputError, {ValueError}),
        (errors.ConfigError, {ValueError}),
        (errors.UnknownLabelError, {ValueError, KeyError, errors.InputError}),
        (errors.NotFittedError, {ValueError, AttributeError}),
        (errors.BundleError, set()),
    ],
)
def test_an_error_is_also_one_of_python(kind: type[Exception], bases: set[type]) -> None:
    assert set(kind.__mro__) >= bases | {errors.DecentRLError}
    assert str(kind("what is wrong")) == "what is wrong"


def test_an_unknown_label_reads_as_a_plain_message() -> None:
    with pytest.raises(KeyError) as caught:
        Vocabulary(["Berlin"]).id("Berlim")
    assert str(caught.value) == "the label 'Berlim' is unknown; did you mean 'Berlin'?"


def test_a_missing_package_is_named_with_how_to_install_it() -> None:
    extra = errors.MissingExtraError("reading RDF", "pyoxigraph", "rdf")
    assert str(extra).endswith("pyoxigraph; install it with: pip install 'decentrl[rdf]'")
    plain = errors.MissingExtraError("to_pandas()", "pandas")
    assert str(plain).endswith("needs the package pandas; install it with: pip install pandas")


def test_a_warning_points_at_the_caller() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        errors.warn_left_out("3 rows were left out")
    assert [(w.category, w.filename) for w in caught] == [(errors.DecentRLWarning, __file__)]
