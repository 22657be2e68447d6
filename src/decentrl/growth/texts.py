"""What is written about entities, from labels to numbers."""

from __future__ import annotations

from decentrl.data.attributes import Attributes
from decentrl.data.names import Names
from decentrl.data.ngrams import ngram_counts
from decentrl.data.values import value_forms
from decentrl.graph.texts import N_BUCKETS, TextRows, Texts, ValueRows


def text_rows(names: Names, attributes: Attributes, n_entities: int) -> Texts:
    """The n-grams of names and the forms of values of the entities 0 … n_entities - 1."""
    ngrams = TextRows(*ngram_counts(names, n_entities, N_BUCKETS))
    return Texts(ngrams, ValueRows(*value_forms(attributes, n_entities)))
