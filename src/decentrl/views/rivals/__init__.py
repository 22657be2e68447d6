"""Rivals of our own views, behind the same interface; none of them makes newcomers."""
