// From shards to one Hugging Face file: units are made whole one after the other, and rank 0 writes them.
#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "checkpoint/contents.h"
#include "checkpoint/own_parts.h"
#include "checkpoint/pretrained.h"
#include "checkpoint/pretrained_files.h"
#include "engine/model.h"

namespace fsdp {

namespace {

using checkpoint::PretrainedTensor;
using checkpoint::SafetensorsWriter;

// A sharded model that some ranks of the mesh hold, and the parts that its first rank sends.
struct Sender {
  int leader = 0;
  checkpoint::OwnParts parts;
};

// Every element once, of the lowest leader that has it. A collective.
std::vector<Sender> find_senders(collectives::Group& group, engine::Model& model, int leader) {
  checkpoint::Manifest held;
  std::set<std::string> names;
  for (const ShardedParameter& one : model.parameters()) {
    const std::string name = checkpoint::name_in_whole(model.whole(), one.name);
    if (!names.insert(name).second) continue;  // a copy
    auto& parameter = held.parameters.emplace_back();
    parameter.name = name;
    parameter.shape = checkpoint::whole_shape(model.whole(), one.name, one.shape);
    const layout::Range all{0, c10::multiply_integers(one.shape)};
    for (const auto& segment : checkpoint::segments_of(model.whole(), one.name, one.shape, all)) {
      parameter.parts.push_back({.offset = segment.at, .placement = segment.placement});
    }
  }
  for (const auto& [name, buffer] : model.buffers()) held.buffers.push_back({name, buffer.sizes().vec(), {}});
  const bool is_leader = group.rank() == leader;
  const auto texts = checkpoint::all_gather_texts(group, is_leader ? checkpoint::encode(held) : "");
  std::vector<checkpoint::HeldParts> all;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    const int number = static_cast<int>(rank);
    all.push_back({number, {number, checkpoint::decode_contribution(texts[rank])}});
  }
  std::vector<checkpoint::OwnParts> parts = checkpoint::keep_own_parts(all);
  std::vector<Sender> senders;
  for (size_t i = 0; i < all.size(); ++i) senders.push_back({all[i].leader, std::move(parts[i])});
  return senders;
}

// Gives one parameter or buffer after the other, whole on rank 0. A collective, in the same order on every rank: there
// is no gather to one rank alone, and so the others of a sharded model receive the unit, too, and drop it. The first
// rank of each sharded model sends its parts to rank 0.
class WholeTensors {
 public:
  WholeTensors(engine::Model& model, checkpoint::CheckpointRanks& ranks) : model_(model), ranks_(ranks) {
    size_t number = 0;
    for (size_t unit = 0; unit < model.units().size(); ++unit) {
      for (size_t i = 0; i < model.units()[unit]->shapes.size(); ++i, ++number) {
        places_.emplace(checkpoint::name_in_whole(model.whole(), model.parameters()[number].name), Place{unit, i});
      }
    }
    leader_ = ranks.leader();
    if (!ranks.has_others()) return;
    ranks.run("save_pretrained", [&](collectives::Group& group) { senders_ = find_senders(group, model, leader_); });
  }

  // Undefined on ranks other than 0.
  torch::Tensor get(const PretrainedTensor& tensor) {
    name_ = tensor.name;
    value_ = ranks_.has_others() ? assembled(tensor) : own(tensor);
    if (ranks_.rank() != 0) value_ = torch::Tensor();
    return value_;
  }

  // On rank 0, a parameter of the unit that the last one was of.
  torch::Tensor beside(const std::string& name) const {
    if (name == name_) return value_;
    const auto place = places_.find(name);
    if (!ranks_.has_others() && place != places_.end() && place->second.unit == gathered_) return view(place->second);
    throw Error(fmt::format("'written' of PretrainedOptions reads {}, which is not a parameter of unit {}{}", name,
                            gathered_ ? model_.units()[*gathered_]->name : "none",
                            ranks_.has_others() ? ". On a mesh it reads its own parameter alone" : ""));
  }

 private:
  struct Place {
    size_t unit, index;
  };

  torch::Tensor view(const Place& place) const { return model_.units()[place.unit]->view(full_, place.index); }

  // This rank's model's. A collective of its ranks.
  torch::Tensor own(const PretrainedTensor& tensor) {
    if (tensor.is_buffer) {
      return std::ranges::find(model_.buffers(), tensor.name, &NamedTensors::value_type::first)->second;
    }
    const Place& place = places_.at(tensor.name);
    if (place.unit != gathered_) {
      full_ = torch::Tensor();
      full_ = model_.gather_whole(place.unit);
      gathered_ = place.unit;
    }
    return model_.group().rank() == 0 ? view(place) : torch::Tensor();
  }

  torch::Tensor assembled(const PretrainedTensor& tensor) {
    torch::Tensor whole;
    for (const Sender& sender : senders_) {
      if (tensor.is_buffer && sender.parts.buffers.contains(tensor.name)) {
        return at_rank0(sender.leader, tensor, tensor.shape, [](const torch::Tensor& all) { return all; });
      }
      const auto found = sender.parts.segments.find(tensor.name);
      if (tensor.is_buffer || found == sender.parts.segments.end()) continue;
      for (const checkpoint::Segment& segment : found->second) {
        const checkpoint::Box& box = segment.placement.box;
        std::vector<int64_t> shape;
        for (const layout::Range& range : box) shape.push_back(range.numel());
        const torch::Tensor part = at_rank0(sender.leader, tensor, shape, [&](const torch::Tensor& all) {
          if (box.empty() || all.size(0) == box[0].numel()) return all;
          return all.narrow(0, segment.at / (all.numel() / all.size(0)), box[0].numel());
        });
        if (ranks_.rank() != 0) continue;
        if (segment.placement.is_whole_box()) return part;
        if (!whole.defined()) whole = torch::empty(tensor.shape, part.options());
        torch::Tensor target = whole;
        for (size_t dim = 0; dim < box.size(); ++dim) {
          target = target.narrow(static_cast<int64_t>(dim), box[dim].begin, box[dim].numel());
        }
        target.copy_(part);
      }
    }
    return whole;
  }

  // The part of a leader's tensor, on rank 0.
  torch::Tensor at_rank0(int leader, const PretrainedTensor& tensor, const std::vector<int64_t>& shape,
                         const std::function<torch::Tensor(const torch::Tensor&)>& part_of) {
    torch::Tensor part;
    if (leader == leader_) {
      const torch::Tensor all = own(tensor);
      if (all.defined() && ranks_.rank() == leader) part = part_of(all);
    }
    if (leader == 0) return part;
    World& world = ranks_.world();
    if (ranks_.rank() == leader) world.send(part.to(world.device()).contiguous(), 0);
    if (ranks_.rank() != 0) return {};
    torch::Tensor received = torch::empty(shape, torch::dtype(tensor.type).device(world.device()));
    world.receive_(received, leader);
    return received;
  }

  engine::Model& model_;
  checkpoint::CheckpointRanks& ranks_;
  int leader_ = 0;
  std::vector<Sender> senders_;
  std::map<std::string, Place> places_;  // of the parameters: the unit, and the number within it
  std::optional<size_t> gathered_;
  torch::Tensor full_;
  std::string name_;  // of the last one
  torch::Tensor value_;
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
                      const WholeTensors& whole) {
  FSDP_CHECK(value.sizes() == tensor.shape,
             "this rank holds shape {} of {}, expected {}, the whole: other ranks hold the rest. Set "
             "PretrainedOptions::mesh.",
             value.sizes().vec(), tensor.name, tensor.shape);
  if (options.written && !tensor.is_buffer) {
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
  checkpoint::CheckpointRanks ranks(model, options.mesh);
  const bool first = ranks.rank() == 0;
  const std::filesystem::path target = std::filesystem::absolute(directory) / checkpoint::kModelName;
  const std::string what = "save_pretrained " + target.string();
  const auto tensors = checkpoint::pretrained_model(sharded, ranks, what, options).tensors;
  const std::vector<size_t> order = order_of(tensors);
  std::optional<files::ReplacedFile> file;
  std::optional<SafetensorsWriter> out;
  ranks.all_succeed(what, [&] {
    if (!first) return;
    std::filesystem::create_directories(target.parent_path());
    file.emplace(target);
    out.emplace(file->file(), target.string(), announced(tensors, order),
                std::map<std::string, std::string>{{"format", "pt"}});
  });
  WholeTensors whole(model, ranks);
  std::exception_ptr failure;  // kept until the collectives are over, which the other ranks wait in
  for (size_t i : order) {
    const torch::Tensor tensor = whole.get(tensors[i]);
    if (!first || failure) continue;
    try {
      out->write(written(options, tensors[i], tensor, whole));
    } catch (...) {
      failure = std::current_exception();
    }
  }
  ranks.all_succeed(what, [&] {
    if (failure) std::rethrow_exception(failure);
    if (first) file->commit();
  });
}

}  // namespace fsdp
