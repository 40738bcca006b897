// From shards to one Hugging Face file: units are made whole one after the other, and rank 0 writes them.
#include <algorithm>
#include <exception>
#include <optional>

#include "base/error.h"
#include "checkpoint/contents.h"
#include "checkpoint/pretrained.h"
#include "checkpoint/pretrained_files.h"
#include "engine/model.h"

namespace fsdp {

namespace {

using checkpoint::PretrainedTensor;
using checkpoint::SafetensorsWriter;

// Gives one parameter or buffer after the other, whole on rank 0. A collective, in the same order on every rank: there
// is no gather to one rank alone, and so the others receive the unit, too, and drop it.
class WholeTensors {
 public:
  explicit WholeTensors(engine::Model& model) : model_(model) {
    for (size_t unit = 0; unit < model.units().size(); ++unit) {
      for (size_t i = 0; i < model.units()[unit]->shapes.size(); ++i) places_.push_back({unit, i});
    }
  }

  // Number `i` of pretrained_tensors. Undefined on ranks other than 0.
  torch::Tensor get(size_t i) {
    const bool first = model_.group().rank() == 0;
    if (i >= places_.size()) return first ? model_.buffers()[i - places_.size()].second : torch::Tensor();
    const auto& [unit, index] = places_[i];
    if (unit != gathered_) {
      full_ = torch::Tensor();
      full_ = model_.gather_whole(unit);
      gathered_ = unit;
    }
    return first ? model_.units()[unit]->view(full_, index) : torch::Tensor();
  }

  // On rank 0, a parameter of the unit that the last one was of.
  torch::Tensor beside(const std::string& name) const {
    for (size_t i = 0; i < places_.size(); ++i) {
      const auto& [unit, index] = places_[i];
      if (model_.parameters()[i].name == name && unit == gathered_) return model_.units()[unit]->view(full_, index);
    }
    throw Error(fmt::format("'written' of PretrainedOptions reads {}, which is not a parameter of unit {}", name,
                            gathered_ ? model_.units()[*gathered_]->name : "none"));
  }

 private:
  engine::Model& model_;
  std::vector<std::pair<size_t, size_t>> places_;  // of the parameters: the unit, and the number within it
  std::optional<size_t> gathered_;
  torch::Tensor full_;
};

// Numbers of the tensors that the file has, those of the widest elements first, otherwise in their order.
std::vector<size_t> order_of(const std::vector<PretrainedTensor>& tensors) {
  std::vector<size_t> order;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].absent) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return c10::elementSize(tensors[a].type) > c10::elementSize(tensors[b].type);
  });
  return order;
}

std::vector<SafetensorsWriter::Announced> announced(const std::vector<PretrainedTensor>& tensors,
                                                    const std::vector<size_t>& order) {
  std::vector<SafetensorsWriter::Announced> announced;
  for (size_t i : order) announced.push_back({tensors[i].name_in_file, tensors[i].type, tensors[i].shape_in_file()});
  return announced;
}

// Number `i` of the tensors, as the file is to have it. `value`: the model's own.
torch::Tensor written(const PretrainedOptions& options, const PretrainedTensor& tensor, torch::Tensor value,
                      const WholeTensors& whole, bool is_parameter) {
  if (options.written && is_parameter) {
    const auto other = options.written(tensor.name, [&](const std::string& name) { return whole.beside(name); });
    FSDP_CHECK(!other.defined() || other.sizes() == value.sizes(),
               "'written' of PretrainedOptions gave {} the shape {}, expected {}", tensor.name, other.sizes().vec(),
               value.sizes().vec());
    if (other.defined()) value = other.to(value.scalar_type());
  }
  return tensor.transposed ? value.t() : value;
}

}  // namespace

void save_pretrained(const std::filesystem::path& directory, ShardedModel& sharded, const PretrainedOptions& options) {
  FSDP_CHECK(!directory.empty(), "save_pretrained: found no directory, expected one for {}", checkpoint::kModelName);
  torch::NoGradGuard no_grad;
  engine::Model& model = sharded.model();
  model.begin_read("save_pretrained");
  collectives::Group& group = model.group();
  const bool first = group.rank() == 0;
  const std::filesystem::path target = std::filesystem::absolute(directory) / checkpoint::kModelName;
  const std::string what = "save_pretrained " + target.string();
  std::vector<PretrainedTensor> tensors;
  std::vector<size_t> order;
  std::optional<files::ReplacedFile> file;
  std::optional<SafetensorsWriter> out;
  checkpoint::all_succeed(group, what, [&] {
    tensors = checkpoint::pretrained_tensors(sharded, options);
    order = order_of(tensors);
    if (!first) return;
    std::filesystem::create_directories(target.parent_path());
    file.emplace(target);
    out.emplace(file->file(), target.string(), announced(tensors, order),
                std::map<std::string, std::string>{{"format", "pt"}});
  });
  WholeTensors whole(model);
  std::exception_ptr failure;  // kept until the collectives are over, which the other ranks wait in
  for (size_t i : order) {
    const torch::Tensor tensor = whole.get(i);
    if (!first || failure) continue;
    try {
      out->write(written(options, tensors[i], tensor, whole, i < model.parameters().size()));
    } catch (...) {
      failure = std::current_exception();
    }
  }
  checkpoint::all_succeed(group, what, [&] {
    if (failure) std::rethrow_exception(failure);
    if (first) file->commit();
  });
}

}  // namespace fsdp
