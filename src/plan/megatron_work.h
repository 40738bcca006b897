// The kernels of a GPT as Megatron-DeepSpeed ran it in 2022: fp16, attention in several kernels, dropout, matrices
// divided over tensor ranks. Pure.
#pragma once

#include "plan/engine_profile.h"
#include "plan/transformer.h"
#include "plan/work.h"

namespace fsdp::plan {

// A micro-batch on one tensor rank.
struct MegatronPass {
  int64_t batch = 1, sequence = 1;
  int64_t tensor = 1;  // ranks
};

// The vocabulary of a tensor rank, padded to a multiple of 128.
int64_t divided_vocabulary(int64_t vocabulary, int64_t tensor);

struct MegatronWork {
  WorkTime layer_forward, layer_backward;
  WorkTime embedding_forward, embedding_backward;
  WorkTime head_forward, head_backward;
};
MegatronWork megatron_work(const TransformerShape& shape, const MegatronPass& pass, const MegatronEngine& engine,
                           const Hardware& hardware);

}  // namespace fsdp::plan
