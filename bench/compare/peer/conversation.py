"""How a contestant is told what to do, as in bench/contestants/conversation.h: a line of JSON for a line of JSON."""

import json
import os
import sys
import time


def take_over_output():
    """Where to answer. From now on, what libraries print goes to standard error."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return output


def answer(output, deeds):
    """Says that it is ready, answers until the input ends, and then ends the process at once. PyTorch's own end of its
    Gloo groups is left out: a rank once took more than a minute for its end, of which no figure is measured."""

    def say(reply):
        print(json.dumps(reply), file=output, flush=True)

    say({"ready": True})
    for line in sys.stdin:
        command = json.loads(line)
        say(deeds[command["do"]](command) or {})
    sys.stderr.flush()
    os._exit(0)


def seconds_of(operation):
    begin = time.perf_counter()
    operation()
    return time.perf_counter() - begin
