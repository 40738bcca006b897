"""Every link between pages, files and headings leads somewhere."""

import re

from documents import pages

LINK = re.compile(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"")


def problem(page, target):
    if target.startswith(("http://", "https://")):
        return None  # not looked up: tests ask nobody
    path, _, anchor = target.partition("#")
    file = (pages.ROOT / page).parent / path if path else pages.ROOT / page
    if not file.exists():
        return f"no file {path}"
    if anchor and anchor not in pages.anchors(str(file.resolve().relative_to(pages.ROOT))):
        return f"no heading #{anchor} in {path or page}"
    return None


def problems():
    for page in pages.pages():
        for number, line in pages.prose(page):
            for target in filter(None, sum(LINK.findall(re.sub(r"`[^`]*`", "", line)), ())):
                what = problem(page, target)
                if what:
                    yield f"{page}:{number}: {target}: {what}"
