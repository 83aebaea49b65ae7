"""Findings: what a trace means. Each rule makes one claim, with its evidence, or says why it cannot."""
