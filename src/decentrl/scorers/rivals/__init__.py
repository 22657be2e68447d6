"""Rivals of the decentralised network, each after its paper: an entity's own embedding counts."""
