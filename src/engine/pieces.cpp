// What users' own operators do with pieces: any element-wise optimizer of LibTorch may step on them.
#include <string_view>
#include <unordered_set>

#include "base/error.h"
#include "engine/model.h"

namespace fsdp::engine {

namespace {

// They mix elements, of which this rank has a part only.
bool mixes_elements(std::string_view operation) {
  static const std::unordered_set<std::string_view> operations{"aten::norm",          "aten::linalg_vector_norm",
                                                               "aten::_foreach_norm", "aten::dot",
                                                               "aten::vdot",          "aten::cat",
                                                               "aten::stack",         "aten::_cat",
                                                               "aten::sum",           "aten::mean",
                                                               "aten::max",           "aten::min",
                                                               "aten::amax",          "aten::amin",
                                                               "aten::prod",          "aten::std",
                                                               "aten::var",           "aten::mm",
                                                               "aten::matmul",        "aten::linalg_norm",
                                                               "aten::outer",         "aten::cumsum",
                                                               "aten::sort",          "aten::topk"};
  return operations.contains(operation);
}

}  // namespace

void Model::pieces_used(const interpose::PieceUse& use, const char* operation) {
  if (use.reads_gradients) {
    FSDP_CHECK(
        shards_ == 1 || !mixes_elements(operation),
        "{} over the gradients of pieces sees this rank's part of them alone. For norms use "
        "sharded.clip_grad_norm_(); optimizers over sharded.shards() must work element by element: use fsdp::Muon, "
        "or Strategy::NoShard, for others.",
        operation);
    close_gradients();
    scale_now();
  }
  if (!use.writes_parameters) return;
  {
    std::lock_guard lock(mutex_);
    if (written_) return;
  }
  begin_write();
  std::lock_guard lock(mutex_);
  written_ = true;
  link_->changed = true;
}

}  // namespace fsdp::engine
