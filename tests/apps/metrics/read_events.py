"""Prints what TensorBoard's own reader finds in a folder: {tag: [[step, value], ...]}."""

import json
import sys

from tensorboard.backend.event_processing import event_accumulator

reader = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={event_accumulator.SCALARS: 0})
reader.Reload()
tags = reader.Tags()["scalars"]
json.dump({tag: [[event.step, event.value] for event in reader.Scalars(tag)] for tag in tags}, sys.stdout)
