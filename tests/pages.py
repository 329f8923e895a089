"""What is inside a report."""

import base64
import json
import re

import numpy as np


def inside(path):
    """The data of a page, and its figures by title."""
    text = path.read_text()
    data = json.loads(re.search(r"^const data = (.*);$", text, flags=re.M).group(1))
    return data, {f["title"]: f for f in data["figures"]}


def points(run):
    """The points of a run in a page, frame by frame."""
    scene = run["scene"]
    numbers = np.frombuffer(base64.b64decode(scene["points"]), dtype="<f4")
    return numbers.reshape(scene["frames"], scene["count"], scene["dimension"])
