#include "run/refuse_together.h"

#include "run/problems.h"

namespace trainer {

bool refuse_together(fsdp::World& world, const std::vector<std::string>& problems) {
  const std::vector<torch::Tensor> counts =
      world.all_gather(torch::tensor({static_cast<int64_t>(problems.size())}, torch::kInt64));
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank].item<int64_t>() == 0) continue;
    if (static_cast<int>(rank) == world.rank()) print_problems(problems);
    return true;
  }
  return false;
}

}  // namespace trainer
