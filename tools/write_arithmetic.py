#!/usr/bin/env python3
"""Writes the tables of docs/arithmetic.md from the rows of `fsdp-plan textbook`.

  tools/write_arithmetic.py BUILD           writes them; BUILD is the folder of a build, build/dev for example
  tools/write_arithmetic.py BUILD --check   fails where the page has others

A table stands between <!-- table: TITLE --> and <!-- end -->; TITLE is a topic's. The text around it is written by hand.
"""

import json
import re
import subprocess
import sys
import textwrap

import written_page

PAGE = "arithmetic.md"
TABLE = re.compile(r"<!-- table: (?P<title>.*?) -->\n.*?<!-- end -->\n", re.DOTALL)
PUBLISHED_DIGITS, OUR_DIGITS = 4, 3


def figure(value, digits):
    if value is None:
        return "none"
    if abs(value) >= 10 ** (digits - 1):
        return f"{round(value):,}"
    return f"{value:.{digits}g}"


def with_unit(text, unit):
    return text if text == "none" else f"{text} {unit}"


def cell(text):
    return text.replace("|", "\\|")


def line_of(row):
    published, ours = figure(row["published"], PUBLISHED_DIGITS), figure(row["ours"], OUR_DIGITS)
    formula = f"{row['formula']} = {figure(row['recomputed'], PUBLISHED_DIGITS)}"
    cells = [row["what"], f"{row['source']}: {with_unit(published, row['unit'])}", formula,
             with_unit(ours, row["unit"]), row["why"]]
    return "| " + " | ".join(map(cell, cells)) + " |\n"


def table_of(topic):
    text = textwrap.fill(topic["setting"], 120) + "\n\n| figure | published | its formula | ours | the difference |\n|---|---|---|---|---|\n"
    return text + "".join(map(line_of, topic["rows"]))


def page_with(topics, page):
    unused = {topic["title"]: topic for topic in topics}

    def replaced(found):
        topic = unused.pop(found["title"], None)
        if topic is None:
            sys.exit(f"{PAGE}: '{found['title']}' is no topic of fsdp-plan textbook, or stands there twice.")
        return f"<!-- table: {found['title']} -->\n{table_of(topic)}<!-- end -->\n"

    text = TABLE.sub(replaced, page)
    if unused:
        sys.exit(f"{PAGE}: no table of {', '.join(unused)}. Write <!-- table: TITLE --> and <!-- end --> for each.")
    return text


def text_of(build, page):
    program = build / "apps" / "fsdp-plan"
    printed = subprocess.run([program, "textbook", "--json"], stdout=subprocess.PIPE, check=True).stdout
    return page_with(json.loads(printed)["topics"], page)


def main():
    written_page.write(PAGE, __doc__, text_of, "its tables are not those of fsdp-plan.")


if __name__ == "__main__":
    main()
