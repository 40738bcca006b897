"""Tables in Markdown."""


def table(head, rows):
    """Lines; the first column is text, the others are numbers."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1)] + rows
    return ["| " + " | ".join(line) + " |" for line in lines]
