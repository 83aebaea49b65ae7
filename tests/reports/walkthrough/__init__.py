"""Tests of the walkthrough's questions."""
