"""What a page is made of: parts that were measured on one machine, each at a commit and a date of its own, as
performance.json has them."""

import json

from compare import machine

FORMAT = 3
FILE = "performance.json"


def new(identity, quick):
    return {"format": FORMAT, "quick": quick, "identity": identity, "parts": {}}


def read(folder):
    """Nothing where there is no page."""
    file = folder / FILE
    return json.loads(file.read_text()) if file.exists() else None


def differences(page, identity, quick):
    """Why parts that are measured now do not belong on the page."""
    if page.get("format") != FORMAT:
        return ["it was written by an older bench/run"]
    if page["quick"] != quick:
        return ["one of both is quick"]
    of_page = page["identity"]
    return [f"{key}: {of_page.get(key)} there, {value} now" for key, value in identity.items() if of_page.get(key) != value]


def open_page(folder, identity, quick):
    """The page to add parts to, and why it is not the one in the folder, where there is one."""
    page = read(folder)
    reasons = differences(page, identity, quick) if page else []
    return (new(identity, quick) if reasons or not page else page), reasons


def add_part(page, name, result, commit, load):
    """`load`: the machine's, before the run that measured it."""
    page["parts"][name] = {"commit": commit, "date": machine.today(), "load_before": load, "result": result}


def described_machine(page):
    return "; ".join(f"{key}: {value}" for key, value in page["identity"].items())


def described_part(part):
    return f"Commit `{part['commit']}`, {part['date']}; load before the run: {part['load_before']:.2f}."
