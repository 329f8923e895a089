"""Mechanisms: bodies, joints and what acts between them, by name."""

from __future__ import annotations

from dalembert.mechanisms import shapes
from dalembert.mechanisms.bodies import Body
from dalembert.mechanisms.joints import Joint
from dalembert.mechanisms.mechanism import Mechanism

__all__ = ["Body", "Joint", "Mechanism", "shapes"]
