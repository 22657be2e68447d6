"""The Reconciliation Service API, version 0.2: what OpenRefine and other tools ask."""
