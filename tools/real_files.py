"""Files that others have published, as they are: fetches their packages and reads each file.

    python -m tools.real_files FOLDER

keeps the packages of :data:`FILES` in FOLDER, by pip and npm, and prints what is read of each
file. ``DECENTRL_REAL_FILES=FOLDER pytest tests/tools/test_real_files.py`` then compares it with the
table in docs/data.md.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path

from decentrl.data.headers import Reading
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.errors import FormatWarning


@dataclass(frozen=True)
class RealFile:
    """A file, or a folder of files, in a package.

    Args:
        package: as pip or npm call it, with its version.
        source: pypi (its wheel), sdist (its source distribution) or npm.
        path: inside the package.
        columns: for ``--columns``.
        entities, relations, triples: what is read.
    """

    format: str
    source: str
    package: str
    path: str
    entities: int
    relations: int
    triples: int
    columns: str = ""

    def place(self, folder: Path) -> Path:
        return folder / self.package.replace("/", "-").replace("==", "-") / self.path


KGX, RDFLIB, NANOPUB = "kgx-2.7.0/tests/resources", "rdflib-7.6.0/test", "nanopub-2.0.1/tests"
N3 = "data/suites/w3c/n3/N3Tests/01etc/data.n3"
TRUSTY = "testsuite/valid/trusty"
VEGA = "package/data"
FILES = (
    RealFile("TSV, 20 columns", "sdist", "kgx==2.7.0", f"{KGX}/monarch-tiny_edges.tsv",
             315, 1, 341),
    RealFile("TSV", "pypi", "pykeen==1.11.1", "pykeen/datasets/nations/train.txt",
             14, 55, 1592),
    RealFile("CSV", "npm", "vega-datasets@3.2.1", f"{VEGA}/flights-airport.csv", 305, 2341, 5366,
             "origin,count,destination"),
    RealFile("Parquet", "npm", "vega-datasets@3.2.1", f"{VEGA}/flights-3m.parquet", 229, 1109, 3399,
             "origin,distance,destination"),
    RealFile("JSON lines", "sdist", "kgx==2.7.0", f"{KGX}/valid_edges.jsonl", 6, 1, 5),
    RealFile("N-Triples", "npm", "tbbt-ld@1.1.0", "package/dist/tbbt.nt", 14, 6, 78),
    RealFile("Turtle", "sdist", "kgx==2.7.0", f"{KGX}/mody.ttl", 806, 20, 1993),
    RealFile("N3", "sdist", "rdflib==7.6.0", f"{RDFLIB}/{N3}", 10000, 100, 100000),
    RealFile("RDF/XML (OWL)", "sdist", "kgx==2.7.0", f"{KGX}/goslim_generic.owl", 640, 17, 2485),
    RealFile("RDF/XML", "sdist", "rdflib==7.6.0", f"{RDFLIB}/data/defined_namespaces/adms.rdf",
             41, 12, 81),
    RealFile("JSON-LD", "sdist", "rdflib==7.6.0", f"{RDFLIB}/jsonld/1.1/vocab.jsonld", 47, 5, 96),
    RealFile("N-Quads", "npm", "@vocabulary/skos@1.0.6", "package/skos.nq", 49, 12, 155),
    RealFile("TriG", "sdist", "nanopub==2.0.1", f"{NANOPUB}/{TRUSTY}/disgenet-v2.1.0.0-1.trig",
             28, 15, 27),
    RealFile("a folder of TriG", "sdist", "nanopub==2.0.1", f"{NANOPUB}/{TRUSTY}", 378, 73, 457),
)  # fmt: skip


def fetch(file: RealFile, folder: Path) -> None:
    """Unpack the package of a file below the folder, unless it is there."""
    target = folder / file.package.replace("/", "-").replace("==", "-")
    if target.is_dir():
        return
    with tempfile.TemporaryDirectory() as place:
        if file.source == "npm":
            command = ["npm", "pack", "--silent", file.package]
        else:
            name = file.package.partition("==")[0]
            kind = "--no-binary" if file.source == "sdist" else "--only-binary"
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            command += [kind, name, file.package]
        subprocess.run(command, cwd=place, check=True, stdout=sys.stderr)
        (archive,) = Path(place).iterdir()
        if archive.suffix == ".whl":
            zipfile.ZipFile(archive).extractall(target)
        else:
            with tarfile.open(archive) as packed:
                packed.extractall(target, filter="data")


def read(file: RealFile, folder: Path) -> KnowledgeGraph:
    """The graph in a file, read as the command line does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        return KnowledgeGraph.read(file.place(folder), Reading.of(columns=file.columns))


def main() -> None:
    folder = Path(sys.argv[1])
    print("| format | package | file | options | entities | relations | triples |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for file in FILES:
        fetch(file, folder)
        graph = read(file, folder)
        options = f"`--columns {file.columns}`" if file.columns else ""
        sizes = len(graph.entities), len(graph.relations), len(graph.triples)
        where = f"`{file.package}` ({file.source})", f"`{Path(file.path).name}`"
        print("| " + " | ".join((file.format, *where, options, *(f"{x:,}" for x in sizes))) + " |")


if __name__ == "__main__":
    main()
