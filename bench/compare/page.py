"""What a page is made of: parts that were measured at one commit on one machine, as performance.json has them."""

import json

from compare import machine

FORMAT = 2
FILE = "performance.json"


def new(identity, quick):
    return {"format": FORMAT, "quick": quick, "identity": identity, "dates": [], "load_before": [], "parts": {}}


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
    found = [
        f"{key}: {of_page.get(key)} there, {value} now" for key, value in identity.items() if of_page.get(key) != value
    ]
    if not found and not machine.is_exact(identity["commit"]):
        found.append(f"commit: {identity['commit']}, which does not say what was measured")
    return found


def open_page(folder, identity, quick):
    """The page to add parts to, and why it is not the one in the folder, where there is one."""
    page = read(folder)
    reasons = differences(page, identity, quick) if page else []
    return (new(identity, quick) if reasons or not page else page), reasons


def begin_run(page):
    """A run adds to the page."""
    if machine.today() not in page["dates"]:
        page["dates"].append(machine.today())
    page["load_before"].append(machine.load())


def described(page):
    """One line: the commit, the machine and the date."""
    facts = dict(page["identity"])
    commit = facts.pop("commit")
    machine_words = "; ".join(f"{key}: {value}" for key, value in facts.items())
    load = max(page["load_before"])
    return f"Commit `{commit}`, measured on {' and '.join(page['dates'])}. {machine_words}; load before: {load:.2f}."
