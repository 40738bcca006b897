// print_state_memory PARAMETERS UNITS RANKS: the memory of a rank for the state of a model, in bytes, a line per
// strategy: its name, parameters, gradients, optimizer, full parameters, full gradients. Units are of equal size, ranks
// have a GPU each, parameters are gathered in bf16, gradients are reduced in fp32, and the optimizer is AdamW. For
// tools/draw_zero.py.
#include <fsdp/plan.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int count, char** arguments) {
  using namespace fsdp::plan;
  if (count != 4) return std::fputs("print_state_memory PARAMETERS UNITS RANKS\n", stderr), 2;
  const int64_t parameters = std::atoll(arguments[1]), units = std::atoll(arguments[2]);
  const int64_t ranks = std::atoll(arguments[3]);
  const std::vector<Unit> model(static_cast<size_t>(units), Unit{{.numel = parameters / units}});
  struct Row {
    const char* strategy;
    int64_t group;
    bool full_for_the_step, shares_buffers;
  };
  for (const Row& row : {Row{"NoShard", 1, true, false}, Row{"ShardOptimizer", ranks, true, false},
                         Row{"ShardGradOp", ranks, false, false}, Row{"FullShard", ranks, false, true}}) {
    const StateMemory memory = state_memory(model, {.ranks = ranks,
                                                    .group = row.group,
                                                    .full_for_the_step = row.full_for_the_step,
                                                    .param_bytes = 2,
                                                    .shares_buffers = row.shares_buffers,
                                                    .on_gpus = true,
                                                    .first_unit_stays_open = false})[0];
    std::printf("%s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", row.strategy, memory.parameters,
                memory.gradients, memory.optimizer, memory.full_parameters, memory.full_gradients);
  }
  return 0;
}
