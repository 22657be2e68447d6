"""Reproduce the paper's tables and figures: ``python -m studies NAME``.

A *run* is one training with one seed (:mod:`run`). A *target* is a table or figure of the paper
(:mod:`targets`): its cells name the runs that they come from, and :mod:`plan` finds those that are
missing. Each run leaves a small file (:mod:`measure`, :mod:`store`), several are done at once
(:mod:`execute`), and pages are laid out from the files alone (:mod:`tables`, :mod:`figures`,
:mod:`claims`, :mod:`site`).
"""
