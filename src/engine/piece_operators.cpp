#include "engine/piece_operators.h"

#include <unordered_set>

#include "base/error.h"

namespace fsdp::engine {

namespace {

using Operations = std::unordered_set<std::string_view>;

// Their results depend on many elements.
bool mixes_elements(std::string_view operation) {
  static const Operations operations{"aten::norm",
                                     "aten::linalg_norm",
                                     "aten::linalg_vector_norm",
                                     "aten::linalg_matrix_norm",
                                     "aten::dist",
                                     "aten::sum",
                                     "aten::_foreach_norm",
                                     "aten::frobenius_norm",
                                     "aten::nansum",
                                     "aten::mean",
                                     "aten::nanmean",
                                     "aten::prod",
                                     "aten::std",
                                     "aten::var",
                                     "aten::std_mean",
                                     "aten::var_mean",
                                     "aten::logsumexp",
                                     "aten::softmax",
                                     "aten::median",
                                     "aten::dot",
                                     "aten::vdot",
                                     "aten::inner",
                                     "aten::outer",
                                     "aten::mv",
                                     "aten::mm",
                                     "aten::bmm",
                                     "aten::addmm",
                                     "aten::matmul",
                                     "aten::linear",
                                     "aten::einsum",
                                     "aten::cumsum",
                                     "aten::tensordot"};
  return operations.contains(operation);
}

// Users may call these on parameters, for a report or a checkpoint of their own. On gradients they are part of a norm
// or of a step.
bool arranges_elements(std::string_view operation) {
  static const Operations operations{"aten::cat",  "aten::_cat", "aten::stack", "aten::max", "aten::min",
                                     "aten::amax", "aten::amin", "aten::sort",  "aten::topk"};
  return operations.contains(operation);
}

}  // namespace

bool changes_form(std::string_view operation) {
  static const Operations operations{interpose::kSetData, "aten::set_",      "aten::resize_",    "aten::resize_as_",
                                     "aten::as_strided_", "aten::squeeze_",  "aten::unsqueeze_", "aten::t_",
                                     "aten::transpose_",  "aten::swapaxes_", "aten::swapdims_"};
  return operations.contains(operation);
}

void check_keeps_form(const interpose::PieceUse& use, std::string_view operation) {
  FSDP_CHECK(!use.writes_parameters || !changes_form(operation),
             "{} would replace the memory or the shape of a parameter's piece, and writes would not reach the model. "
             "Write the values: piece.copy_(values). In place of vector_to_parameters, copy each slice.",
             operation);
}

void check_element_wise(const interpose::PieceUse& use, std::string_view operation) {
  FSDP_CHECK(!mixes_elements(operation) && !(!use.gradients.empty() && arranges_elements(operation)),
             "{} over pieces of parameters or of their gradients sees only this rank's part. For the norm of the "
             "gradients use sharded.clip_grad_norm_(); optimizers over sharded.shards() must work element by element: "
             "use fsdp::Muon, or Strategy::NoShard, for others. To compute on the part, use piece.clone().",
             operation);
}

bool sets_to_zero(std::string_view operation) {
  return operation == "aten::zero_" || operation == "aten::_foreach_zero_";
}

void check_takes_no_parameter(const interpose::PieceUse& use, std::string_view operation) {
  FSDP_CHECK(!(use.writes_parameters && use.takes_parameters),
             "{} writes a piece of a parameter and takes a whole parameter of the same model, which cannot be there "
             "while pieces are written. Copy the parameter first, with parameter.clone(), and write from the copy.",
             operation);
}

}  // namespace fsdp::engine
