"""Fingerprint: facts of the machine, one file per subject.

Readers never raise; only `torch.py` imports torch, inside its functions.
"""
