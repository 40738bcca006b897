// A budget for activations (Options::activation_memory): which blocks keep the tensors that their backward needs, and
// which run again in it, so that memory stays below the budget and the least time is lost.
//
// Beside the option there is the decision itself, a function of measured or planned sizes and times. Bits depend on
// none of this.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

// Which results of operators a checkpointed function keeps in the forward, so that its second run does not compute them
// again.
enum class KeptResults {
  None,
  // Those of matrix products, convolutions and attention without dropout, which take nearly all the time, and in a
  // GPT-2 block 10 of the 16 tensors of the width that a backward needs. Norms, activation functions, dropout and other
  // element-wise work are repeated. Results that the function returns are not kept, nor those that it changes in place
  // later than by the operator that follows.
  Products,
  All,  // as without a checkpoint: there is no second run
};

// A block that keeps this: bytes of activations beyond those of KeptResults::None, which keeps the block's inputs.
struct BlockChoice {
  KeptResults keep = KeptResults::None;
  int64_t kept_bytes = 0;      // from its forward to its backward
  int64_t backward_bytes = 0;  // while its own backward runs
  double seconds = 0;          // of its second run
};

struct BudgetedBlock {
  std::string name;
  std::vector<BlockChoice> choices;  // one at least
};

// The activations of a step in which every block keeps its inputs alone.
struct ActivationTimeline {
  std::vector<BudgetedBlock> blocks;  // in the order of their forwards
  // One more than there are blocks. peaks[i] is the most that there is, in bytes, at moments when the backward of no
  // block before number i has begun and that of all others has, or their forward has not. The last is that of the
  // forward's end, with the loss.
  std::vector<int64_t> peaks;
};

struct ActivationPlan {
  std::vector<KeptResults> keep;  // by block
  int64_t peak_bytes = 0;         // the most of a step
  double seconds = 0;             // of a step's second runs
};

// The choice of each block that loses the least time while the peak is at most `budget_bytes`. With a larger budget
// neither the time grows nor does the peak fall; of plans that take equally long it is the one with the lowest peak.
// Exact, but where blocks differ so much that more than 16,384 plans have to be compared at one of them: then the time
// is at most 3 % above the least. Deterministic.
//
// Throws Error for a budget below the least peak, which the message names, for a block without choices, and where
// `peaks` has another length.
ActivationPlan plan_activations(const ActivationTimeline& timeline, int64_t budget_bytes);

// The storages that a timeline is made of, in bytes each.
struct RecomputedStorages {
  struct Block {
    std::string name;
    std::vector<int64_t> products, all;     // BlockChoice::kept_bytes
    std::vector<int64_t> unsaved_products;  // backward_bytes of products
  };
  struct Moment {
    size_t open_blocks;             // its number among ActivationTimeline::peaks
    std::vector<int64_t> storages;  // all that are kept, the largest first
  };
  std::vector<Block> blocks;  // in the order of their forwards
  std::vector<Moment> moments;
};

// The decision of a model with Options::activation_memory.
struct ActivationDecision {
  ActivationTimeline measured;  // largest sizes of any rank, mean times
  ActivationPlan plan;
};

}  // namespace fsdp
