"""The picture of `communication.py`: bytes per agent against held-out score."""

from typing import Any

from decbayes.plot.style import AMPS, BATCH, COLOURS, GREY, INK, canvas, styled

LOOKS = {
    "broadcast": (AMPS, "o", "one broadcast, then refined"),
    "EM": (COLOURS[1], "", "distributed EM"),
    "Gibbs": (COLOURS[2], "", "distributed Gibbs"),
    "consensus, common start": (COLOURS[4], "", "consensus, common start"),
    "consensus": (COLOURS[3], "", "consensus"),
}
WEATHER = {0.0: "nothing lost", 0.3: "30 % of messages lost"}


@styled()
def picture(curves: list[dict[str, Any]], agents: int, path: str) -> None:
    """One panel per task and loss: the nats by which held-out scores are below one fit of all data."""
    tasks = list(dict.fromkeys(each["task"] for each in curves))
    figure = canvas(7.2, 3.7)
    panels = figure.subplots(len(WEATHER), len(tasks), sharex="col", sharey="col", squeeze=False)
    for row, (loss, told) in enumerate(WEATHER.items()):
        for panel, task in zip(panels[row], tasks, strict=True):
            own = {each["method"]: each["points"] for each in curves if each["task"] == task and each["lost"] == loss}
            data = next(each["points"] for each in curves if each["task"] == task and each["method"] == "data")
            draw(panel, own, data)
            if row == 0:
                panel.set_title(f"{task} sites" if "unlike" in task else task)
        panels[row][0].set_ylabel(f"{told}\nnats below one fit of all")
    figure.supxlabel(f"kilobytes sent per agent, {agents} agents", fontsize=8)
    named = [zip(*panel.get_legend_handles_labels(), strict=True) for panel in panels.ravel()]
    handles = {label: handle for pairs in named for handle, label in pairs}
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4, fontsize=7)
    figure.savefig(path)


def draw(panel: Any, curves: dict[str, Any], data: list[list[float]]) -> None:
    """The methods, what a site has alone, and the data themselves as a cross on the line of the best."""
    for method, (colour, mark, label) in LOOKS.items():
        points = [point for point in curves.get(method, ()) if point[1] > 0]
        if points:
            kilobytes, below = [point[1] / 1000 for point in points], [-point[2] for point in points]
            first = method == "broadcast"
            panel.plot(
                kilobytes,
                below,
                color=colour,
                marker=mark,
                ms=3.5,
                lw=1.8 if first else 1.1,
                label=label,
                zorder=3 if first else 2,
            )
    panel.axhline(-data[0][2], color=GREY, lw=0.8, ls=":", label="a site alone")
    panel.axhline(0.0, color=BATCH, lw=0.8, label="one fit of all data")
    panel.plot(data[1][1] / 1000, 0.0, marker="x", color=INK, ms=5, ls="", label="all data sent to all", zorder=4)
    panel.set(xscale="log")
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.set_yscale("symlog", linthresh=0.1, linscale=1.2)
    panel.set_yticks([0, 0.05, 0.1, 1], ["0", "0.05", "0.1", "1"])
