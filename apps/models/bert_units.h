// The parameters of a BERT (Devlin et al., 2018, https://arxiv.org/abs/1810.04805), for plans alone.
// Names and shapes are those of Hugging Face's BertForPreTraining. It has post-norm layers, 2 kinds of sentences, a
// pooler, and two heads: one for masked tokens, tied to the token embedding, and one for the next sentence.
#pragma once

#include <string>

#include "models/listed_parameters.h"

namespace models {

// The parameters outside of the layers.
Parameters bert_root(const ModelConfig& config);

// Those of a layer; their names begin with `name`.
Parameters bert_block(const ModelConfig& config, const std::string& name);

}  // namespace models
