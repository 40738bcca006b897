"""Pages of docs/ of which a program writes a part: the command line of their tools, and the check of the page."""

import argparse
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"


def write(name, description, text_of, difference):
    """Writes the page, or fails with `difference` where --check is given and the page has another text.

    `text_of`: of the folder of a build and the page's text now, the text that it should have.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    page = DOCS / name
    now = page.read_text(encoding="utf-8")
    text = text_of(arguments.build, now)
    if not arguments.check:
        page.write_text(text, encoding="utf-8")
    elif text != now:
        sys.exit(f"docs/{name}: {difference} Run tools/{pathlib.Path(sys.argv[0]).name} BUILD.")
