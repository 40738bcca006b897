// Interposed parameters without an engine behind them: each unit's bytes lie in the test's own memory, and a recorder
// listens.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/error.h"
#include "interpose/backward_watch.h"
#include "interpose/parameter.h"

namespace fsdp::interpose {

// Writes down what it is told: "aten::add_ 0 writes 0" for an operator, "end 0" for its end.
class Recorder final : public Listener {
 public:
  Recorder() { link->listener = this; }

  void operator_begins(std::span<const int> units, std::optional<int> written, const char* operation) override {
    note();
    std::string touch = fmt::format("{} {}", operation, fmt::join(units, ","));
    if (written) touch += fmt::format(" writes {}", *written);
    touches.push_back(touch);
    events.push_back(touch);
    if (refuse == "everything" || (refuse == "writes" && written)) throw Error("refused: " + touch);
    for (int unit : units) storages.at(unit)->allow_access();
  }

  void parameter_viewed(int unit) override { events.push_back(fmt::format("view {}", unit)); }

  void operator_ends(std::span<const int> units) noexcept override {
    events.push_back(fmt::format("end {}", fmt::join(units, ",")));
    for (int unit : units) storages.at(unit)->forbid_access();
  }

  void operator_wrote(const char* operation) override { events.push_back(fmt::format("{} wrote", operation)); }

  void pieces_used(const PieceUse& use, const char* operation) override {
    events.push_back(fmt::format("{}{}{}", operation, use.gradients.empty() ? "" : " reads gradients",
                                 use.writes_parameters ? " writes pieces" : ""));
  }

  void gradient_read() override { events.push_back("reads grad()"); }

  // Each is given away once.
  torch::Tensor gradient_destination(int unit, int parameter) override {
    const auto place = places.find({unit, parameter});
    if (place == places.end() || !given.insert(place->first).second) return {};
    const torch::Tensor& memory = place->second;
    return torch::from_blob(memory.data_ptr(), memory.sizes(), memory.options());
  }

  void gradient_arrives(int unit, int parameter, torch::Tensor gradient) override {
    note();
    const auto place = places.find({unit, parameter});
    if (place != places.end() && place->second.data_ptr() == gradient.data_ptr()) {
      arrived_in_place.insert(place->first);
    }
    gradients[{unit, parameter}].push_back(gradient.clone());
  }

  void backward_ends(int task) override {
    if (watch.close(task)) ++ends;
  }

  void note() {
    if (watch.note().abandoned) ++abandoned;
  }

  std::shared_ptr<Link> link = std::make_shared<Link>();
  BackwardWatch watch{link};
  std::map<int, UnitStorage*> storages;
  std::string refuse;
  std::vector<std::string> touches;
  std::vector<std::string> events;
  std::map<std::pair<int, int>, std::vector<torch::Tensor>> gradients;
  std::map<std::pair<int, int>, torch::Tensor> places;  // of parameters' gradients, of the parameters' sizes
  std::set<std::pair<int, int>> given, arrived_in_place;
  int ends = 0;       // of backwards
  int abandoned = 0;  // backwards that ended without their callback
};

// Parameters that keep their values and lie, one after the other, in memory of this unit.
class Unit {
 public:
  Unit(Recorder& recorder, int id, const std::vector<torch::Tensor>& tensors) {
    int64_t numel = 0;
    for (const auto& tensor : tensors) numel += tensor.numel();
    memory = torch::zeros({numel});
    storage = c10::make_intrusive<UnitStorage>(id, fmt::format("unit{}", id), memory.nbytes(), torch::kFloat32, false,
                                               recorder.link);
    recorder.storages[id] = storage.get();
    int64_t offset = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      torch::Tensor values = memory.as_strided(tensors[i].sizes(), tensors[i].strides(), offset);
      values.copy_(tensors[i].detach());
      parameters.emplace_back(tensors[i], fmt::format("parameter{}", i), storage, offset, tensors[i].strides().vec(),
                              static_cast<int>(i));
      offset += tensors[i].numel();
    }
    storage->bind(memory.data_ptr());
    storage->forbid_access();
  }

  torch::Tensor memory;
  c10::intrusive_ptr<UnitStorage> storage;
  std::vector<AttachedParameter> parameters;
};

inline torch::Tensor ramp(at::IntArrayRef sizes) {
  return torch::arange(torch::zeros(sizes).numel()).reshape(sizes) * 0.25;
}
inline torch::Tensor leaf(at::IntArrayRef sizes) { return ramp(sizes).set_requires_grad(true); }

inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() && torch::equal(a, b);
}

class Interpose : public ::testing::Test {
 protected:
  Recorder recorder;
  torch::Tensor weight = leaf({3, 4}), bias = leaf({3}), other = leaf({2, 4});
  Unit first{recorder, 0, {weight, bias}}, second{recorder, 1, {other}};
  torch::Tensor input = ramp({2, 4});
};

}  // namespace fsdp::interpose
