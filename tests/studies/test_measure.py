"""The data that a run is measured on."""

from __future__ import annotations

from dataclasses import replace

from decentrl.data.alignment_task import AlignmentTask
from studies import measure as module
from studies.run import Run


def test_a_run_reads_the_split_that_it_names() -> None:
    run = Run("alignment", "world", "quick", unseen=0.2)
    tasks = [module.read(replace(run, split=split)) for split in (0, 1, 1, 2)]
    hashes = [task.content_hash() for task in tasks]
    assert hashes[1] == hashes[2]
    assert len(set(hashes)) == 3
    new = [task.unknown for task in tasks if isinstance(task, AlignmentTask)]
    assert len({int(mask.sum()) for mask in new}) == 1  # as many, but others
    assert (new[1] != new[3]).any()
