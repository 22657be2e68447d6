"""Link prediction: complete a graph of the world, then add a country unseen in training.

python examples/complete_world.py
"""

from __future__ import annotations

from typing import Any

from decentrl import Predictor


def main(*settings: str) -> Predictor:
    """Train on the packaged GeoNames facts, predict, add an entity, and predict its facts."""
    predictor = Predictor.from_preset("quick", *settings).fit("world/geonames")
    rows = predictor.evaluate().rows
    print(f"filtered MRR {rows[0]['mrr']:.3f}, by frequency {predictor.frequency()['mrr']:.3f}")

    print("\nThree held-out queries, the predicted answer, and its probability:")
    for row in predictor.test_predictions().to_pylist()[100:400:100]:
        right = "right" if row["correct"] else f"wrong, it is {row['truth'][0]}"
        print(f"  {line(row)} (predicted: {row['asked']}; {right})")

    # A new entity: its vector is computed from its neighbours, nothing is trained.
    predictor.add(
        [
            ("New Land", "borders", "France"),
            ("New Land", "borders", "Belgium"),
            ("Newtown", "city of", "New Land"),
        ]
    )
    print("\nNew Land borders France and Belgium. On which continent does it lie?")
    show(predictor, head="New Land", relation="on continent")
    print("\nAnd which time zone has its city?")
    show(predictor, head="Newtown", relation="in time zone")
    return predictor


def show(predictor: Predictor, **question: str) -> None:
    """Print the three best answers to a query."""
    for row in predictor.predict(**question, top=3).to_pylist():
        print(f"  {line(row)}")


def line(row: dict[str, Any]) -> str:
    """A predicted triple and its probability as text."""
    return f"{row['head']} – {row['relation']} → {row['tail']}   {row['probability']:.2f}"


if __name__ == "__main__":
    main()
