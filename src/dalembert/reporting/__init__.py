"""What a run is shown by: a self-contained HTML page with summary, figures and animation, and films (GIF, MP4).

`page` puts the page together from its parts in the folder `web/`: `scene.js` draws what moves, `player.js` keeps the time,
`figures.js` draws the figures and their cursors. `scene`, `figures` and `facts` give them their data.
"""

from dalembert.reporting.film import animate
from dalembert.reporting.page import report, slider

__all__ = ["animate", "report", "slider"]
