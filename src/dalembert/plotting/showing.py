"""Figures that appear once: in a notebook at the end of the cell, in a script in a window, if there is a screen."""

from __future__ import annotations

import atexit
import functools
import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@functools.cache
def figure_class() -> type[Figure]:
    """The class of figures that functions return.

    A notebook shows the value of the last line of a cell, and after the cell all figures that are new: a figure that is returned
    would appear twice. This one leaves it to what shows new figures, if there is such a thing; later it shows itself.
    """
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    class Drawn(Figure):
        def _ipython_display_(self) -> None:
            managed = self.canvas.manager is not None and plt.fignum_exists(self.canvas.manager.num)
            if managed and plt.isinteractive() and _is_value_of_a_cell():
                return
            _publish(self)

    return Drawn


def _is_value_of_a_cell() -> bool:
    """Whether this is called to show the value of the last line of a cell."""
    from IPython.core.displayhook import DisplayHook

    frame = inspect.currentframe()
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), DisplayHook):
            return True
        frame = frame.f_back
    return False


def _publish(figure: Figure) -> None:
    """Show a figure in a notebook, in the formats it was set to."""
    from IPython.core.getipython import get_ipython
    from IPython.display import publish_display_data

    shell = get_ipython()  # type: ignore[no-untyped-call]
    formatters = shell.display_formatter.formatters if shell is not None and shell.display_formatter is not None else {}
    data, notes = {"text/plain": repr(figure)}, {}
    for kind, formatter in formatters.items():
        found = formatter(figure) if kind.startswith("image/") or kind == "application/pdf" else None
        if found is not None:
            data[kind], notes[kind] = found if isinstance(found, tuple) else (found, {})
    publish_display_data(data, notes)  # type: ignore[no-untyped-call]


def present(figure: Figure) -> None:
    """Show a figure in a window, if the backend has windows, without waiting; the script's end waits until all are closed."""
    if getattr(figure.canvas, "required_interactive_framework", None) is None or figure.canvas.manager is None:
        return
    figure.show()
    _wait_at_exit()


@functools.cache
def _wait_at_exit() -> None:
    """Once: keep the windows of a script open at its end."""
    import matplotlib.pyplot as plt

    def wait() -> None:
        if plt.get_fignums() and not plt.isinteractive():
            plt.show(block=True)

    atexit.register(wait)
