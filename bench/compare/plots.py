"""The plots, as SVG. Without matplotlib there are none."""

import pathlib

try:
    import matplotlib
    from matplotlib import pyplot
except ImportError:
    matplotlib = None


def save(figure, folder, name):
    figure.tight_layout()
    figure.savefig(pathlib.Path(folder) / "pictures" / name, metadata={"Date": None})
    pyplot.close(figure)
    return name


def draw_collectives(folder, result):
    """Gigabytes a second by size, a panel for each operation and number of ranks."""
    panels = sorted({(row["do"], row["ranks"]) for row in result["rows"]})
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4 * len(panels), 3.6), sharey=True)
    for axis, (do, ranks) in zip(axes, panels):
        rows = [row for row in result["rows"] if (row["do"], row["ranks"]) == (do, ranks)]
        sizes = [row["bytes"] for row in rows]
        for name in rows[0]["seconds"]:
            rates = [row["bytes"] / row["seconds"][name] / 1e9 for row in rows]
            axis.loglog(sizes, rates, marker=".", label=name)
        axis.set(title=f"{do}, {ranks} ranks", xlabel="bytes of the full unit")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("GB/s")
    axes[0].legend(fontsize="small")
    return [save(figure, folder, "performance_collectives.svg")]


def draw_steps(folder, result):
    """A panel for each kind of work, a bar for each contestant."""
    works = result["works"]
    figure, axes = pyplot.subplots(1, len(works), figsize=(3.2 * len(works), 3.6), squeeze=False)
    for axis, work in zip(axes[0], works):
        names = list(work["contestants"])
        medians = [1e3 * work["contestants"][name]["median"] for name in names]
        colours = ["C1" if name.startswith("PyTorch") else "C0" if name.startswith("fsdp") else "C7" for name in names]
        axis.barh(names, medians, color=colours)
        axis.invert_yaxis()
        settings = work["work"]
        axis.set_title(f"{work['parameters'] / 1e6:.3g} M, {settings['dtype']}, batch {settings['batch']}", fontsize="medium")
        axis.set_xlabel("ms a step")
    return [save(figure, folder, "performance_steps.svg")]


def draw_memory(folder, result):
    """What each contestant adds to a process, at its peak."""
    works = result["works"]
    figure, axes = pyplot.subplots(1, len(works), figsize=(3.6 * len(works), 3.6), squeeze=False)
    for axis, work in zip(axes[0], works):
        names = list(work["contestants"])
        found = work["contestants"].values()
        added = [(one["peak_proportional"] - one["before"]["proportional"]) / 2**20 for one in found]
        axis.barh(names, added)
        axis.invert_yaxis()
        axis.set_title(work["title"].split(", ", 1)[1], fontsize="medium")
        axis.set_xlabel("MiB a rank (PSS)")
    return [save(figure, folder, "performance_memory.svg")]


def draw_growth(folder, result):
    figure, (ranks, layers) = pyplot.subplots(1, 2, figsize=(9, 3.6))
    for name in result["ranks"][0]["medians"]:
        counts = [row["work"]["ranks"] for row in result["ranks"]]
        ranks.plot(counts, [1e3 * row["medians"][name] for row in result["ranks"]], marker=".", label=name)
        depths = [row["work"]["shape"]["layers"] for row in result["layers"]]
        costs = [1e3 * row["medians"][name] / depth for row, depth in zip(result["layers"], depths)]
        layers.plot(depths, costs, marker=".", label=name)
    ranks.set(xlabel="ranks", ylabel="ms a step")
    layers.set(xlabel="layers", ylabel="ms a step and layer", ylim=(0, None))
    ranks.legend(fontsize="small")
    return [save(figure, folder, "performance_growth.svg")]


DRAW = {
    "collectives": draw_collectives,
    "steps": draw_steps,
    "memory": draw_memory,
    "growth": draw_growth,
}


def draw(folder, part, result):
    """The names of the files."""
    if matplotlib is None or part not in DRAW:
        return []
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "fsdp"  # the same bytes for the same figures
    return DRAW[part](folder, result)
