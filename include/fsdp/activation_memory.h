// A budget for activations (Options::activation_memory). It decides which blocks keep the tensors for their backward
// and which blocks run again, so that memory stays below the budget and the extra time is least.
//
// The decision is a function of its own (plan_activations), of measured or planned sizes and times. It does not change
// any bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

// Which results of operators a checkpointed function keeps in the forward, so that its second run does not compute them
// again.
enum class KeptResults {
  None,  // only the inputs of the function
  // Results of matrix products, convolutions and attention without dropout. They take nearly all the time, and in a
  // GPT-2 block they are 10 of the 16 tensors of full width that a backward needs. Norms, activation functions, dropout
  // and other element-wise operators are repeated. Two kinds of results are not kept: results that the function
  // returns, and results that it changes in place, unless the very next operator does so.
  Products,
  All,  // as without a checkpoint: there is no second run
};

// One choice for a block. Bytes count beyond KeptResults::None, which keeps only the block's inputs.
struct BlockChoice {
  KeptResults keep = KeptResults::None;  // results that the block keeps
  int64_t kept_bytes = 0;                // from its forward to its backward
  int64_t backward_bytes = 0;            // while its own backward runs
  double seconds = 0;                    // of its second run
};

// A block and its choices.
struct BudgetedBlock {
  std::string name;                  // for reports
  std::vector<BlockChoice> choices;  // one at least
};

// The activations of a step in which every block keeps its inputs alone.
struct ActivationTimeline {
  std::vector<BudgetedBlock> blocks;  // in the order of their forwards
  // One more element than `blocks`. peaks[i] is the peak, in bytes, while exactly the blocks before number i are open:
  // their forward has begun and their backward has not. The last element is the end of the forward, with the loss.
  std::vector<int64_t> peaks;
};

// The choice for each block, and its memory and time.
struct ActivationPlan {
  std::vector<KeptResults> keep;  // by block
  int64_t peak_bytes = 0;         // the most of a step
  double seconds = 0;             // of a step's second runs
};

// Chooses for each block so that the peak is at most `budget_bytes` and the extra time is least. With a larger budget
// the time does not grow and the peak does not fall. Ties go to the plan with the lowest peak. The result is exact and
// deterministic. If blocks differ so much that one of them has more than 16,384 plans to compare, the time is at most 3
// % above the least.
//
// Throws Error for a budget below the least possible peak (the message has that peak), for a block without choices, and
// if `peaks` has another length.
ActivationPlan plan_activations(const ActivationTimeline& timeline, int64_t budget_bytes);

// The storages behind a timeline, in bytes each.
struct RecomputedStorages {
  // Storages of one block beyond its inputs.
  struct Block {
    std::string name;                       // as in named_modules
    std::vector<int64_t> products;          // kept with KeptResults::Products
    std::vector<int64_t> all;               // kept with KeptResults::All
    std::vector<int64_t> unsaved_products;  // backward_bytes of products
  };
  // The storages of one moment of a step.
  struct Moment {
    size_t open_blocks;             // its number among ActivationTimeline::peaks
    std::vector<int64_t> storages;  // all that are kept, the largest first
  };
  std::vector<Block> blocks;    // in the order of their forwards
  std::vector<Moment> moments;  // of the forward and the backward, in their order
};

// The decision of a model with Options::activation_memory.
struct ActivationDecision {
  ActivationTimeline measured;  // largest sizes of any rank, mean times
  ActivationPlan plan;          // what each block keeps
};

}  // namespace fsdp
