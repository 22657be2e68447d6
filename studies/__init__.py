"""The paper's tables and figures again: ``python -m studies NAME``.

A *run* is one training with one seed (:mod:`run`). A *target* is a table or figure of the paper
(:mod:`targets`): it says which runs its cells come from, and so which are to be done (:mod:`plan`).
Each run leaves a small file (:mod:`measure`, :mod:`store`), several are done at once
(:mod:`execute`), and pages are laid out from the files alone (:mod:`tables`, :mod:`figures`,
:mod:`claims`, :mod:`site`).
"""
