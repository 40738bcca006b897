// The operators of a BERT, as Hugging Face's BertForPreTraining runs them with fused attention. Pure.
//
// Its pooler and its head for the next sentence are left out: they compute one token of a sequence. The loss is that of
// the other families, over all tokens.
#pragma once

#include "models/model_config.h"
#include "models/operators.h"
#include "plan/graph.h"

namespace models {

// Three lookups, their sum, and a norm.
fsdp::plan::Graph bert_embedding_graph(const ModelConfig& config, const MicroBatchSizes& sizes);
// A layer with its norms behind its sums.
fsdp::plan::Graph bert_layer_graph(const ModelConfig& config, const MicroBatchSizes& sizes);
// Between the last layer and the tied head, in the place of the last norm: a matrix, GELU and a norm.
fsdp::plan::Graph bert_transform_graph(const ModelConfig& config, const MicroBatchSizes& sizes);

}  // namespace models
