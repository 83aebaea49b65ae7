"""Readings of the machine's state around and during each process, from /proc and /sys; cheap enough to take while measuring."""

from suite.telemetry.findings import findings
from suite.telemetry.sampler import Moment, Sampler, Subject

__all__ = ["Moment", "Sampler", "Subject", "findings"]
