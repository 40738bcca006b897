#include "formats/convert.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/names.h"
#include "checkpoint/problems.h"
#include "files/json.h"
#include "files/printable.h"

namespace fsdp::formats {

namespace {

bool is_utf8(const std::string& text) try {
  files::Json(text).dump();
  return true;
} catch (const nlohmann::json::exception&) {
  return false;
}

// A tensor of the source, and what it is to be in the target.
struct PlannedTensor {
  size_t number = 0;  // in the source
  StoredTensor stored = {};
  bool is_transposed = false;
};

class ConversionPlan {
 public:
  ConversionPlan(const Source& source, const Conversion& conversion) : source_(source), conversion_(conversion) {
    std::vector<std::string> problems;
    std::set<TensorName> names;
    for (size_t i = 0; i < source.tensors().size(); ++i) {
      const StoredTensor& tensor = source.tensors()[i];
      if (!names.insert(tensor.name).second) {
        problems.push_back(fmt::format("two tensors are called {}", files::printable(tensor.name.text())));
      }
      if (!is_utf8(tensor.name.text())) {
        problems.push_back(fmt::format("{} is not a name in UTF-8", files::printable(tensor.name.text())));
      }
      if (is_wanted(tensor)) add(i);
    }
    checkpoint::throw_if_any(problems, "the source", "Give each tensor a name of its own.");
    FSDP_CHECK(!planned_.empty(), "nothing to convert: the source has no tensors that the target can hold");
    // Then each is aligned in files that follow each other's bytes.
    std::ranges::stable_sort(planned_, std::ranges::greater(),
                             [](const PlannedTensor& one) { return c10::elementSize(one.stored.type); });
    settle_shared();
  }

  const std::vector<PlannedTensor>& tensors() const { return planned_; }

  Announced announced() const {
    Announced announced;
    for (const PlannedTensor& one : planned_) announced.tensors.push_back(one.stored);
    if (conversion_.model_only) return announced;
    announced.facts = source_.facts();
    return announced;
  }

  std::vector<std::string> remarks() const {
    std::vector<std::string> remarks;
    const auto say_if = [&](size_t count, const std::string& text) {
      if (count > 0) remarks.push_back(text);
    };
    const char* target = entry_of(conversion_.to).description;
    say_if(states_left_out_,
           fmt::format("{} tensors of the optimizer's state are left out{}.", states_left_out_,
                       conversion_.model_only ? "" : fmt::format(": {} holds a model alone", target)));
    say_if(source_.facts().left_out,
           fmt::format("Left out: {} values that are not tensors of a model or of its optimizer's state.",
                       source_.facts().left_out));
    const bool has_states = !conversion_.model_only && entry_of(conversion_.to).has_states;
    say_if(has_states && source_.facts().states_by_order,
           "The optimizer's parameters have numbers: they are taken for the model's parameters in their order, as "
           "Module.parameters() gives them.");
    say_if(has_states ? source_.facts().numbered_states : 0,
           fmt::format("{} tensors of the optimizer's state are left out: its parameters have numbers, and the numbers "
                       "do not fit the model's parameters in their order. Save states by name, as "
                       "torch.distributed.checkpoint.state_dict.get_state_dict gives them.",
                       source_.facts().numbered_states));
    const bool loses_notes = conversion_.model_only || conversion_.to != Format::Checkpoint;
    say_if(loses_notes ? source_.facts().notes.size() : 0,
           "The notes of the training loop are left out: a run cannot resume from the result.");
    say_if(widened_, fmt::format("{} tensors become fp32, as in checkpoints; --dtype sets another dtype.", widened_));
    say_if(transposed_, fmt::format("{} matrices are transposed.", transposed_));
    for (const std::string& text : shared_) remarks.push_back(text);
    return remarks;
  }

 private:
  bool is_wanted(const StoredTensor& tensor) {
    const bool has_place = !conversion_.model_only && entry_of(conversion_.to).has_states;
    if (tensor.name.role != Role::State || has_place) return true;
    ++states_left_out_;
    return false;
  }

  void add(size_t number) {
    PlannedTensor one{number, source_.tensors()[number]};
    one.stored.type = type_of(one.stored);
    one.is_transposed = one.stored.shape.size() == 2 && matches_any(conversion_.transposed, one.stored.name.name);
    if (one.is_transposed) std::swap(one.stored.shape[0], one.stored.shape[1]);
    transposed_ += one.is_transposed;
    planned_.push_back(std::move(one));
  }

  torch::ScalarType type_of(const StoredTensor& tensor) {
    if (tensor.name.role == Role::State || !c10::isFloatingType(tensor.type)) return tensor.type;
    if (conversion_.dtype) return *conversion_.dtype;
    const bool is_half = tensor.type == torch::kFloat16 || tensor.type == torch::kBFloat16;
    const bool widens = is_half && conversion_.to == Format::Checkpoint && source_.format() != Format::Checkpoint;
    widened_ += widens;
    return widens ? torch::kFloat32 : tensor.type;
  }

  // Only torch.save's format shares bytes. In a checkpoint a tied parameter is there once, by its first name; elsewhere
  // it is there once more.
  void settle_shared() {
    std::vector<std::optional<size_t>> places(source_.tensors().size());  // in what is planned
    std::vector<PlannedTensor> kept;
    for (PlannedTensor& one : planned_) {
      std::optional<size_t> first;
      if (one.stored.same_as) first = places[*one.stored.same_as];
      if (first && !is_same(one, kept[*first])) first.reset();
      const bool is_left_out = first && conversion_.to == Format::Checkpoint && one.stored.name.role == Role::Parameter;
      if (is_left_out) {
        shared_.push_back(fmt::format("{} is tied to {}, and left out.", files::printable(one.stored.name.text()),
                                      files::printable(kept[*first].stored.name.text())));
        continue;
      }
      one.stored.same_as = conversion_.to == Format::TorchFile ? first : std::nullopt;
      places[one.number] = kept.size();
      kept.push_back(std::move(one));
    }
    planned_ = std::move(kept);
  }

  static bool is_same(const PlannedTensor& a, const PlannedTensor& b) {
    return a.stored.type == b.stored.type && a.stored.name.role == b.stored.name.role &&
           a.is_transposed == b.is_transposed;
  }

  const Source& source_;
  const Conversion& conversion_;
  std::vector<PlannedTensor> planned_;
  size_t states_left_out_ = 0, widened_ = 0, transposed_ = 0;
  std::vector<std::string> shared_;
};

bool became_infinite(const torch::Tensor& before, const torch::Tensor& after) {
  if (after.scalar_type() != torch::kFloat16 || after.numel() == 0) return false;
  return !torch::isfinite(after).all().item<bool>() && torch::isfinite(before).all().item<bool>();
}

}  // namespace

Converted convert(Source& source, const std::filesystem::path& target, const Conversion& conversion) {
  const torch::NoGradGuard no_grad;
  const ConversionPlan plan(source, conversion);
  Converted converted{.remarks = plan.remarks()};
  const auto sink = make_sink(target, conversion.to, plan.announced(), conversion.existing, conversion.folder);
  size_t infinite = 0;
  for (const PlannedTensor& one : plan.tensors()) {
    ++converted.tensors;
    if (one.stored.same_as) continue;
    const torch::Tensor read = source.read(one.number);
    torch::Tensor value = read.to(one.stored.type);
    infinite += became_infinite(read, value);
    if (one.is_transposed) value = value.t().contiguous();
    converted.bytes += one.stored.bytes();
    sink->write(value);
  }
  sink->commit();
  if (infinite > 0) {
    converted.remarks.push_back(
        fmt::format("{} tensors had values that are too large for fp16, and are infinite now.", infinite));
  }
  return converted;
}

}  // namespace fsdp::formats
