#include "engine/module_buffers.h"

#include <utility>

#include "base/error.h"
#include "engine/value_hash.h"
#include "files/wrapped.h"

namespace fsdp::engine {

namespace {

// A buffer may be written for the first time when something else has been initialised.
constexpr int kObservedBackwards = 3;

int64_t version_of(const torch::Tensor& buffer) { return buffer.is_inference() ? 0 : buffer._version(); }

torch::Tensor bytes_of(const torch::Tensor& buffer) {
  return buffer.detach().contiguous().reshape({-1}).view(torch::kByte);
}

}  // namespace

void copy_values(torch::Tensor buffer, torch::Tensor values) {
  for (int64_t dim = 0; dim < buffer.dim(); ++dim) {
    if (buffer.stride(dim) != 0 || buffer.size(dim) < 2) continue;
    buffer = buffer.narrow(dim, 0, 1), values = values.narrow(dim, 0, 1);
  }
  buffer.copy_(values);
}

ModuleBuffers::ModuleBuffers(collectives::Group& group, NamedTensors buffers,
                             std::unordered_set<std::string> statistics, bool broadcast_each_forward)
    : group_(group),
      buffers_(std::move(buffers)),
      statistics_(std::move(statistics)),
      broadcast_each_forward_(broadcast_each_forward) {
  note_versions();
}

bool ModuleBuffers::is_written(size_t buffer) const {
  const auto& [name, tensor] = buffers_[buffer];
  return statistics_.contains(name) || version_of(tensor) != versions_[buffer];
}

// One message for all: most buffers are small.
void ModuleBuffers::broadcast(int source) {
  if (buffers_.empty() || group_.size() == 1) return;
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> parts;
  for (const auto& [name, buffer] : buffers_) parts.push_back(bytes_of(buffer));
  torch::Tensor message = torch::cat(parts);
  group_.broadcast_(message, source);
  int64_t begin = 0;
  for (const auto& [name, buffer] : buffers_) {
    const auto size = static_cast<int64_t>(buffer.nbytes());
    const torch::Tensor values = message.slice(0, begin, begin + size).clone().view(buffer.scalar_type());
    copy_values(buffer, values.view(buffer.sizes()));
    begin += size;
  }
  note_versions();
}

void ModuleBuffers::forward_begins(bool together) {
  if (broadcast_each_forward_ && together) broadcast(0);
}

void ModuleBuffers::backward_ends(bool together) {
  if (!together || !looks()) return;
  ++backwards_;
  differing_ = compare();
  if (differing_.empty() || group_.rank() != 0) return;
  files::show_error(
      fmt::format("{}warning: training wrote these buffers, and their values differ between ranks now: {}. A forward "
                  "that reads them computes with other values on each rank. Set options.broadcast_buffers, which "
                  "sends rank 0's to all before each training forward, as DDP does, or write the same on every rank "
                  "(World::all_reduce_ what is written). If no training forward reads them, nothing is wrong "
                  "(docs/determinism.md).\n",
                  message_prefix(), fmt::join(differing_, ", ")));
}

bool ModuleBuffers::looks() const {
  return group_.size() > 1 && !broadcast_each_forward_ && differing_.empty() && backwards_ < kObservedBackwards &&
         buffers_.size() > statistics_.size();
}

void ModuleBuffers::note_versions() {
  versions_.clear();
  for (const auto& [name, buffer] : buffers_) versions_.push_back(version_of(buffer));
}

// Buffers that some rank has written and that differ between ranks.
std::vector<std::string> ModuleBuffers::compare() {
  const auto count = static_cast<int64_t>(buffers_.size());
  torch::Tensor message = torch::zeros({2, count}, torch::kInt64);
  auto* written = message.mutable_data_ptr<int64_t>();
  int64_t* hashes = written + count;
  for (int64_t i = 0; i < count; ++i) {
    if (statistics_.contains(buffers_[i].first)) continue;
    written[i] = is_written(i);
    hashes[i] = hash_of_values(buffers_[i].second);
  }
  const auto all = group_.all_gather(message, "compares the module's buffers");
  std::vector<std::string> found;
  for (int64_t i = 0; i < count; ++i) {
    bool any_written = false, alike = true;
    for (const torch::Tensor& one : all) {
      any_written |= one.const_data_ptr<int64_t>()[i] != 0;
      alike &= one.const_data_ptr<int64_t>()[count + i] == hashes[i];
    }
    if (any_written && !alike) found.push_back(buffers_[i].first);
  }
  return found;
}

}  // namespace fsdp::engine
