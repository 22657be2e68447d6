"""Labels and files: readers, writers, vocabularies, graphs, tasks and datasets."""
