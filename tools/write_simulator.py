#!/usr/bin/env python3
"""Writes the tables of docs/simulator.md: published step times beside simulated ones.

  tools/write_simulator.py BUILD           writes them; BUILD is the folder of a build, build/dev for example
  tools/write_simulator.py BUILD --check   fails where the page has others

A table stands between <!-- table: NAME --> and <!-- end -->. The text around it is written by hand.
"""

import json
import re
import subprocess

import written_page

TABLE = re.compile(r"<!-- table: (?P<name>.*?) -->\n.*?<!-- end -->\n", re.DOTALL)


def percent(share):
    return f"{100 * share:.1f} %"


def rows_table(table):
    lines = ["| source | setting | measured, s | simulated, s | error |", "|---|---|---|---|---|"]
    for row in table["rows"]:
        star = " *" if row["fitted"] else ""
        lines.append(f"| {row['source']} | {row['setting']}{star} | {row['measured']:.4g} | {row['predicted']:.4g} | "
                     f"{100 * row['error']:+.1f} % |")
    return "\n".join(lines) + "\n"


def summary_table(tables):
    lines = ["| table | rows | mean error | median | nine in ten within | worst |", "|---|---|---|---|---|---|"]
    for title, name, part in [("vTrain, one host of A100, predicted", "vtrain", "predicted"),
                              ("vTrain, fitted", "vtrain", "fitted"),
                              ("YaFSDP's authors and torchtitan, predicted", "sharded", "predicted"),
                              ("torchtitan on H100, fitted", "sharded", "fitted"),
                              ("one H200, fitted", "h200", "fitted"),
                              ("2 CPU cores, calibrated, predicted", "cpu", "predicted")]:
        found = tables[name][part]
        cells = [percent(found[key]) for key in ("mean", "median", "nine_in_ten", "worst")]
        lines.append(f"| {title} | {found['rows']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def text_of(build, page):
    program = build / "tests" / "apps" / "print_published_times"
    tables = json.loads(subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout)
    written = {"errors": summary_table(tables)} | {name: rows_table(tables[name]) for name in ("sharded", "h200", "cpu")}
    return TABLE.sub(lambda found: f"<!-- table: {found['name']} -->\n{written[found['name']]}<!-- end -->\n", page)


def main():
    written_page.write("simulator.md", __doc__, text_of, "its tables are not those of the simulation.")


if __name__ == "__main__":
    main()
