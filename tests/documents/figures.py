"""Figures that a page repeats of a page of measurements are still there.

The page lists them, as they were measured, in a comment: <!-- figures of docs/performance.md: 87.1 3046.9 -->. Where
one is missing, the measurements are newer than the page: change its text and the comment.
"""

import re

from documents import pages

LIST = re.compile(r"^<!-- figures of (\S+): (.*) -->$")


def problems():
    for page in pages.pages():
        for number, line in pages.prose(page):
            listed = LIST.match(line)
            if listed:
                known = set(re.findall(r"[\d.]+", pages.read(listed[1])))
                for figure in listed[2].split():
                    if figure not in known:
                        yield f"{page}:{number}: {figure} is not in {listed[1]} any more"
