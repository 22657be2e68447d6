"""How long large files take to become ids, and how much memory.

    python -m benchmarks.reading 10000000 [--formats tsv tsv.zst nt parquet] [-o FOLDER]

Writes so many random triples (a tenth as many entities, popular ones more often; 500 relations) in
each format, then reads each by ``KnowledgeGraph.read`` in a process of its own, and prints seconds,
CPU seconds and the peak of its resident memory, imports included. Labels are like
``http://one.example/e1234567``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.size import measure

FORMATS = ("tsv", "tsv.gz", "tsv.zst", "nt", "parquet")
RELATIONS, BLOCK = 500, 1 << 20
READ = (
    "import sys; from decentrl import KnowledgeGraph; g = KnowledgeGraph.read(sys.argv[1]); "
    "print(len(g.entities), len(g.relations), len(g.triples))"
)


def blocks(triples: int) -> pa.Table:
    """Random triples, a block at a time."""
    rng = np.random.default_rng(0)
    for start in range(0, triples, BLOCK):
        n = min(BLOCK, triples - start)
        ends = (rng.random((2, n)) ** 1.5 * (triples / 10)).astype(np.int64)
        ids = ends[0], (rng.random(n) ** 3 * RELATIONS).astype(np.int64), ends[1]
        cells = [
            pc.binary_join_element_wise(f"http://one.example/{x}", pa.array(i).cast("string"), "")
            for x, i in zip("ere", ids, strict=True)
        ]
        yield pa.table(cells, names=["head", "relation", "tail"])


def write(file: Path, kind: str, triples: int) -> None:
    """A file of random triples; N-Triples have brackets and a dot."""
    if kind == "parquet":
        schema = pa.schema([(x, pa.string()) for x in ("head", "relation", "tail")])
        with pq.ParquetWriter(file, schema) as parquet:
            for table in blocks(triples):
                parquet.write_table(table)
        return
    ending = kind.partition(".")[2]
    packing = {"": None, "gz": "gzip", "zst": "zstd"}[ending]
    with pa.output_stream(str(file), compression=packing) as stream:
        options = pyarrow.csv.WriteOptions(
            include_header=False, delimiter="\t", quoting_style="none"
        )
        for table in blocks(triples):
            if kind == "nt":
                cells = [pc.binary_join_element_wise("<", x, ">", "") for x in table.columns]
                line = pc.binary_join_element_wise(*cells, ".", " ")
                table = pa.table([line], names=["line"])
            pyarrow.csv.write_csv(table, stream, options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("triples", type=int)
    parser.add_argument("--formats", nargs="+", default=["tsv", "tsv.zst", "nt", "parquet"],
                        choices=FORMATS)  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, help="keep the files there")
    given = parser.parse_args()
    columns = ("seconds", "cpu", "GB")
    print(f"{given.triples:,} triples", *(f"{x:>9}" for x in ("file GB", *columns)))
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.output or Path(temporary)
        for kind in given.formats:
            file = folder / f"triples-{given.triples}.{kind}"
            if not file.exists():  # in a process of its own: a child begins with our peak
                make = "import sys; from pathlib import Path; from benchmarks.reading import write;"
                make += "write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))"
                subprocess.run(
                    [sys.executable, "-c", make, str(file), kind, str(given.triples)], check=True
                )
            said, found = measure([sys.executable, "-c", READ, str(file)])
            size = file.stat().st_size / 1e9
            cells = [f"{x:>9.2f}" for x in (size, *(found[x] for x in columns))]
            print(f"{kind:<18}", *cells, " entities, relations, triples:", said.strip(), flush=True)


if __name__ == "__main__":
    main()
