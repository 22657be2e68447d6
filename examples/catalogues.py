"""Two catalogues of one trade, as two shops would write them: the files of docs/first-hour.md.

    python examples/catalogues.py

writes ours.csv, theirs.csv, links.csv (a part of what is known to be the same) and new.csv (what
the other shop adds later) into the working folder. Brands and products are invented.
"""

import csv
import random
from pathlib import Path

KINDS = {
    "front lamp": "headlight", "rear lamp": "tail light", "saddle": "seat", "bell": "bell",
    "pump": "air pump", "lock": "bike lock", "helmet": "helmet", "tyre": "tire", "pedal": "pedal",
    "chain": "chain", "brake pad": "brake shoe", "bottle": "water bottle", "rack": "carrier",
    "mudguard": "fender", "basket": "basket", "grip": "handle grip", "computer": "speedometer",
}  # fmt: skip
BRANDS = ("Alto", "Brisk", "Corvo", "Delta", "Enno", "Fjell", "Gamma", "Hale", "Iver", "Juno")
COLOURS = {"black": "noir", "red": "rouge", "green": "vert", "blue": "bleu", "grey": "gris"}
MATERIALS = {"steel": "acier", "rubber": "caoutchouc", "leather": "cuir", "aluminium": "aluminium"}
PRODUCTS, SHARED, LATER = 400, 300, 5


def main() -> None:
    draw = random.Random(7)
    models = draw.sample(
        [(b, k, n) for b in BRANDS for k in KINDS for n in range(10, 90)], PRODUCTS
    )
    ours = [f"{brand} {number} {kind}" for brand, kind, number in models]
    # Two products in five have a number of the shop's own.
    own = [n if draw.random() < 0.6 else draw.randrange(100, 900) for *_, n in models]
    theirs = [
        f"{KINDS[k].title()} {b.upper()}-{n}" for (b, k, _), n in zip(models, own, strict=True)
    ]
    left, right = [], []
    for i, (brand, kind, _) in enumerate(models):
        colour, material = draw.choice(list(COLOURS)), draw.choice(list(MATERIALS))
        goes = draw.randrange(PRODUCTS)
        left += [(ours[i], "brand", brand), (ours[i], "kind", kind), (ours[i], "colour", colour)]
        left += [(ours[i], "material", material), (ours[i], "goes with", ours[goes])]
        right += [(theirs[i], "manufacturer", f"{brand} Ltd"), (theirs[i], "group", KINDS[kind])]
        right += [
            (theirs[i], "couleur", COLOURS[colour]),
            (theirs[i], "made of", MATERIALS[material]),
        ]
        right += [(theirs[i], "fits", theirs[goes])]
    later = set(theirs[SHARED - LATER : SHARED])
    left = [row for row in left if not {row[0], row[2]} & set(ours[: PRODUCTS - SHARED])]
    right = [row for row in right if not {row[0], row[2]} & set(theirs[SHARED:])]
    known = [(ours[i], theirs[i]) for i in range(PRODUCTS - SHARED, SHARED - LATER)]
    write("ours.csv", ("product", "relation", "value"), left)
    arriving = [row for row in right if row[0] in later]
    write("theirs.csv", ("product", "relation", "value"),
          [row for row in right if not {row[0], row[2]} & later])  # fmt: skip
    write("new.csv", ("product", "relation", "value"), arriving)
    write("links.csv", ("ours", "theirs"), draw.sample(known, len(known) // 2))


def write(name: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


if __name__ == "__main__":
    main()
