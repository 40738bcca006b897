"""Prints what TensorBoard's own readers find in a folder.

    read_events.py scalars FOLDER           {tag: [[step, value], ...]}
    read_events.py hyperparameters FOLDER   {run: {"hyperparameters": {...}, "metrics": {tag: value}, "status": ...}}
"""

import json
import sys

from google.protobuf import json_format
from tensorboard.backend.event_processing import data_provider, event_accumulator, plugin_event_multiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups


def scalars(folder):
    reader = event_accumulator.EventAccumulator(folder, size_guidance={event_accumulator.SCALARS: 0})
    reader.Reload()
    tags = reader.Tags()["scalars"]
    return {tag: [[event.step, event.value] for event in reader.Scalars(tag)] for tag in tags}


def hyperparameters(folder):
    """As the plugin answers its page in the browser."""
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(folder)
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, folder)
    context = backend_context.Context(base_plugin.TBContext(data_provider=provider))
    every_status = api_pb2.Status.values()
    request = api_pb2.ListSessionGroupsRequest(allowed_statuses=every_status, start_index=0, slice_size=100)
    request.aggregation_type = api_pb2.AGGREGATION_AVG
    handler = list_session_groups.Handler(
        request_context=RequestContext(), backend_context=context, experiment_id="", request=request
    )
    sessions = {}
    for group in handler.run().session_groups:
        values = {name: json_format.MessageToDict(value) for name, value in group.hparams.items()}
        for session in group.sessions:
            sessions[session.name.split("/")[-1]] = {
                "hyperparameters": values,
                "metrics": {metric.name.tag: metric.value for metric in session.metric_values},
                "status": api_pb2.Status.Name(session.status),
            }
    return sessions


json.dump({"scalars": scalars, "hyperparameters": hyperparameters}[sys.argv[1]](sys.argv[2]), sys.stdout)
