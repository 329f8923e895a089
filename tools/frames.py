"""Frames a second of a report in headless Chromium, and how its clock keeps time: `python tools/frames.py run.html [seconds]`."""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import browser

MEASURE = """new Promise(done => {
  let relayouts = 0, frames = 0, first = null, began = null;
  const own = Plotly.relayout;
  Plotly.relayout = (...a) => { relayouts++; return own(...a); };
  const seen = new Set();
  const look = now => {
    first ??= now; began ??= dalembert.time(); frames++; seen.add(dalembert.frame);
    if (now - first < 1000 * %g) return requestAnimationFrame(look);
    Plotly.relayout = own;
    done({wall: (now - first) / 1000, motion: dalembert.time() - began, frames, shown: seen.size, relayouts});
  };
  dalembert.show(0); document.getElementById('play').click(); requestAnimationFrame(look);
})"""


def main() -> None:
    """Measure and print."""
    path, seconds = Path(sys.argv[1]).resolve(), float(sys.argv[2]) if len(sys.argv) > 2 else 4.0
    with tempfile.TemporaryDirectory() as profile, browser.Page(path.as_uri(), Path(profile)) as page:
        found = page.value(MEASURE % seconds)
    print(
        f"{found['frames'] / found['wall']:.1f} frames a second, {found['shown'] / found['wall']:.1f} of them new; "
        f"{found['motion']:.3f} s of motion in {found['wall']:.3f} s; {found['relayouts']} new layouts of figures"
    )


if __name__ == "__main__":
    main()
