"""The plots, as SVG. Without matplotlib there are none."""

import pathlib

from compare import loss, moments, offload, programs, recomputation
from compare.memory import above_proportional
from compare.spread import measured

try:
    import matplotlib
    from matplotlib import pyplot
except ImportError:
    matplotlib = None


OURS = ["C0", "C9", "C2", "C4"]
PEERS = ["C1", "C3", "C5", "C6", "C8"]


def colours(names):
    """By contestant: ours cold, others warm, the plain model and memcpy grey."""
    chosen = dict.fromkeys(names, "C7")
    chosen |= zip((name for name in names if name.startswith("fsdp")), OURS)
    chosen |= zip((name for name in names if name.startswith(("PyTorch", "DeepSpeed"))), PEERS)
    return chosen


def grid(panels, columns, width):
    """A figure with that many panels, and the panels."""
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(width * columns, 3.4 * rows), squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    return figure, axes.flat[: len(panels)]


def median(values):
    return measured(values).median


def bars(axis, values, title, unit):
    """`values` by contestant."""
    kinds = {"fsdp": "C0", "fsdp-train": "C0", "PyTorch": "C1", "DeepSpeed": "C1"}
    axis.barh(list(values), list(values.values()), color=[kinds.get(name.split()[0].rstrip(","), "C7") for name in values])
    axis.invert_yaxis()
    axis.set_title(title, fontsize="medium")
    axis.set_xlabel(unit)


def save(figure, folder, name):
    figure.tight_layout()
    figure.savefig(pathlib.Path(folder) / "pictures" / name, metadata={"Date": None})
    pyplot.close(figure)
    return name


def draw_collectives(folder, result):
    """Gigabytes a second by size, a panel for each operation and number of ranks."""
    panels = sorted({(row["do"], row["ranks"]) for row in result["rows"]})
    figure, axes = grid(panels, columns=2, width=4.5)
    for axis, (do, ranks) in zip(axes, panels):
        rows = [row for row in result["rows"] if (row["do"], row["ranks"]) == (do, ranks)]
        for name, colour in colours(rows[0]["seconds"]).items():
            rates = [row["bytes"] / median(row["seconds"][name]) / 1e9 for row in rows]
            axis.loglog([row["bytes"] for row in rows], rates, marker=".", label=name, color=colour)
        axis.set(title=f"{do}, {ranks} ranks", xlabel="bytes of the full unit", ylabel="GB/s")
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize="small")
    return save(figure, folder, "performance_collectives.svg")


def draw_calls(folder, result):
    """Milliseconds by size, a panel for each call: the fewest ranks solid, the others dashed."""
    names = list(dict.fromkeys(row["call"] for row in result["rows"]))
    figure, axes = grid(names, columns=2, width=4.5)
    counts = sorted({row["ranks"] for row in result["rows"]})
    for axis, call in zip(axes, names):
        for ranks, style in zip(counts, ("-", "--", ":")):
            rows = [row for row in result["rows"] if (row["call"], row["ranks"]) == (call, ranks)]
            for name, colour in colours(rows[0]["seconds"]).items():
                times = [1e3 * median(row["seconds"][name]) for row in rows]
                label = f"{name}, {ranks} ranks"
                axis.loglog([row["bytes"] for row in rows], times, style, marker=".", label=label, color=colour)
        axis.set(title=call, xlabel="bytes", ylabel="ms")
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize="small")
    return save(figure, folder, "performance_calls.svg")


def draw_steps(folder, result):
    """A panel for each kind of work."""
    works = result["works"]
    figure, axes = grid(works, columns=min(2, len(works)), width=4.5)
    for axis, work in zip(axes, works):
        settings = work["work"]
        title = f"{work['parameters'] / 1e6:.3g} M, {settings['dtype']}, batch {settings['batch']}"
        medians = {name: 1e3 * median(found["seconds"]) for name, found in work["contestants"].items()}
        bars(axis, medians, title, "ms a step")
    return save(figure, folder, "performance_steps.svg")


def draw_memory(folder, result):
    """What each contestant adds to a process, at its peak."""
    works = result["works"]
    figure, axes = grid(works, columns=min(2, len(works)), width=4.5)
    for axis, work in zip(axes, works):
        added = {
            name: median(above_proportional(found)) / 2**20
            for name, found in work["contestants"].items()
        }
        bars(axis, added, work["title"].split(", ", 1)[1], "MiB per rank (PSS)")
    return save(figure, folder, "performance_memory.svg")


def draw_recomputation(folder, result):
    """Each contestant by its memory and its rate: the best lies at the upper left."""
    figure, (axis,) = grid([0], columns=1, width=7)
    for name, colour in colours(result["contestants"]).items():
        peak, rate = median(recomputation.peaks(result, name)) / 2**20, median(recomputation.rates(result, name))
        axis.plot(peak, rate, "o", label=name, color=colour)
    axis.set(xlabel="MiB per rank (PSS)", ylabel="tokens per second", xlim=(0, None), ylim=(0, None))
    axis.legend(fontsize="small")
    axis.grid(alpha=0.3)
    return save(figure, folder, "performance_recomputation.svg")


def draw_offload(folder, result):
    if "problem" in result:
        return None
    figure, (axis,) = grid([0], columns=1, width=7)
    times = {}
    for name, found in zip(result["names"], result["rounds"].values()):
        times[name] = 1e3 * median(found["seconds"])
        if "disk" in found:
            times[f"its bytes, disk alone ({name})"] = 1e3 * median(found["disk"])
    bars(axis, times, "", "ms per step")
    return save(figure, folder, "performance_offload.svg")


def draw_moments(folder, result):
    """A panel for each number of threads."""
    benchmarks = result["benchmarks"]
    figure, axes = grid(benchmarks, columns=2, width=4.5)
    for axis, benchmark in zip(axes, benchmarks):
        times = {name: programs.counter(benchmark, f"{name}_ns").median for name in moments.FORMATS}
        bars(axis, times, moments.threads(benchmark), "ns per parameter")
    return save(figure, folder, "performance_moments.svg")


def draw_loss(folder, result):
    """A panel for the time and one for the memory."""
    figure, axes = grid([0, 1], columns=2, width=5.5)
    for axis, unit in zip(axes, ("ms", "MB")):
        values = {}
        for benchmark in result["benchmarks"]:
            for name, kind in ((loss.WHOLE, "whole"), (loss.OURS, "chunks")):
                found = programs.counter(benchmark, f"{kind}_{unit.lower()}")
                values[f"{name}\n{loss.title(benchmark)}"] = found.median
        bars(axis, values, "", unit)
    return save(figure, folder, "performance_loss.svg")


def draw_growth(folder, result):
    figure, (ranks, layers) = grid([0, 1], columns=2, width=4.5)
    for name, colour in colours(result["ranks"][0]["seconds"]).items():
        counts = [row["work"]["ranks"] for row in result["ranks"]]
        steps = [1e3 * median(row["seconds"][name]) for row in result["ranks"]]
        ranks.plot(counts, steps, marker=".", label=name, color=colour)
        depths = [row["work"]["shape"]["layers"] for row in result["layers"]]
        costs = [1e3 * median(row["seconds"][name]) / depth for row, depth in zip(result["layers"], depths)]
        layers.plot(depths, costs, marker=".", color=colour)
    ranks.set(xlabel="ranks", ylabel="ms a step", ylim=(0, None))
    layers.set(xlabel="layers", ylabel="ms a step and layer", ylim=(0, None))
    ranks.legend(fontsize="small")
    return save(figure, folder, "performance_growth.svg")


def draw_wires(folder, result):
    """A panel for each cable and dtype."""
    rows = result.get("rows", [])
    if not rows:
        return None
    figure, axes = grid(rows, columns=2, width=4.5)
    for axis, row in zip(axes, rows):
        medians = {name: 1e3 * median(found["seconds"]) for name, found in row["contestants"].items()}
        bars(axis, medians, f"{row['gigabits']} Gbit/s, {row['dtype']}", "ms a step")
    return save(figure, folder, "performance_wires.svg")


def draw_checkpoints(folder, result):
    """A panel for saves and one for loads."""
    figure, axes = grid([0, 1], columns=2, width=4.5)
    for axis, do in zip(axes, ("save", "load")):
        bars(axis, {name: 1e3 * median(found[do]) for name, found in result["saves"].items()}, f"a {do}", "ms")
    return save(figure, folder, "performance_checkpoints.svg")


def draw_failures(folder, result):
    """Each kill, by where the run went on from."""
    figure, (axis,) = grid([0], columns=1, width=7)
    for kill in result["kills"]["kills"]:
        axis.plot([kill["seconds"]], [f"from {kill['source']}"], "o", color="C0", alpha=0.6)
    axis.set(xlabel="s from a kill to the end of the next step, less a step", xlim=(0, None))
    axis.margins(y=0.5)
    return save(figure, folder, "performance_failures.svg")


def draw_trainers(folder, result):
    figure, (axis,) = grid([0], columns=1, width=7)
    bars(axis, {name: 1e3 * median(found["seconds"]) for name, found in result["contestants"].items()}, "", "ms a step")
    return save(figure, folder, "performance_trainers.svg")


def draw_pipelines(folder, result):
    """A panel for each shape and number of ranks."""
    rows = result["rows"]
    figure, axes = grid(rows, columns=2, width=5.5)
    for axis, row in zip(axes, rows):
        medians = {name: 1e3 * median(found["seconds"]) for name, found in row["contestants"].items()}
        bars(axis, medians, f"{row['ranks']} ranks, {row['shape']}", "ms a step")
    return save(figure, folder, "performance_pipelines.svg")


def draw_tensor_parallel(folder, result):
    """A panel for each kind of work."""
    figure, axes = grid(result["works"], columns=2, width=4.5)
    for axis, work in zip(axes, result["works"]):
        medians = {name: 1e3 * median(found["seconds"]) for name, found in work["contestants"].items()}
        bars(axis, medians, f"{work['shape']}, batch {work['work']['batch']}", "ms a step")
    return save(figure, folder, "performance_tensor_parallel.svg")


DRAW = {
    "collectives": draw_collectives,
    "calls": draw_calls,
    "steps": draw_steps,
    "memory": draw_memory,
    "recomputation": draw_recomputation,
    "offload": draw_offload,
    "moments": draw_moments,
    "loss": draw_loss,
    "pipelines": draw_pipelines,
    "tensor_parallel": draw_tensor_parallel,
    "growth": draw_growth,
    "wires": draw_wires,
    "trainers": draw_trainers,
    "checkpoints": draw_checkpoints,
    "failures": draw_failures,
}


def draw(folder, part, result):
    """The name of the file; none where there is no plot of this part."""
    if matplotlib is None or part not in DRAW:
        return None
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "fsdp"  # the same bytes for the same figures
    return DRAW[part](folder, result)
