// The collectives of one backend, as a model uses them, and the calls of a World: one rank of a job whose launcher is
// the comparison.
#include <fsdp/fsdp.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "collectives/group.h"
#include "conversation.h"
#include "layout/gradient_layout.h"
#include "layout/unit_layout.h"
#include "repetitions.h"
#include "world/state.h"
#include "world_calls.h"

namespace {

using contestant::bytes_of;
using contestant::Json;
using contestant::kElementBytes;
using contestant::measure;
namespace collectives = fsdp::collectives;
namespace layout = fsdp::layout;

// What an owner writes: another value each time, as in peer/collectives.py, so that sums of old ones show.
float next_value(float& value) { return value = value < 8 ? value + 1 : 1; }

// One unit of a model, a single parameter, with the memory that its collectives need.
class Unit {
 public:
  Unit(collectives::Group& group, int id, int64_t numel)
      : layout_({numel}, group.size(), group.size()),
        gradient_layout_(layout_, {1}),
        collectives_(group.open_unit({.id = id, .name = "unit", .layout = layout_})),
        gradients_(group.allocate(gradient_layout_.full_numel() * kElementBytes).view(torch::kFloat32).fill_(1)),
        staging_(torch::empty({collectives_->staging_numel(gradient_layout_)})) {
    if (collectives_->capabilities().into_buffer) buffer_ = torch::zeros({layout_.full_numel()});
    sum_ = {torch::zeros({gradient_layout_.shard_of(group.rank()).numel()}), {0}};
  }

  // A step's gather of new parameters: the owner writes its shard, as an optimizer does, and then the unit is full
  // here.
  void gather() {
    make_full();
    collectives_->release();
  }

  // And an operator reads all of it.
  double gather_and_read() {
    const double sum = torch::from_blob(make_full(), {layout_.full_numel()}).sum().item<double>();
    collectives_->release();
    return sum;
  }

  void reduce() {
    sum_.held = {0};
    collectives_->begin_reduce({&gradient_layout_, gradients_, {1}, staging_}, sum_);
    collectives_->wait_reduce();
    collectives_->wait_sum();
  }

 private:
  void* make_full() {
    collectives_->begin_write(collectives::Readers::Wait);
    collectives_->shard().fill_(next_value(value_));
    collectives_->publish();
    collectives_->begin_gather(buffer_, collectives::Order::Common);
    return collectives_->wait_gather();
  }

  layout::UnitLayout layout_;
  layout::GradientLayout gradient_layout_;
  std::unique_ptr<collectives::UnitCollectives> collectives_;
  torch::Tensor buffer_, gradients_, staging_;
  collectives::GradientSum sum_;
  float value_ = 0;
};

// With the sum that was read last.
Json measure_reading(const Json& command, const std::function<double()>& operation) {
  double sum = 0;
  Json answer = measure(command, [&] { sum = operation(); });
  answer["sum"] = sum;
  return answer;
}

// The counterparts by memcpy, each rank for itself: it writes one of `ranks` shards, copies as much as the full unit,
// and reads the copy. That of a reduction is the copy alone.
class Copies {
 public:
  explicit Copies(const Json& command)
      : from_(torch::ones({bytes_of(command) / kElementBytes})),
        to_(torch::zeros_like(from_)),
        shard_(torch::zeros({from_.numel() / command.at("ranks").get<int64_t>()})) {}

  void copy() { std::memcpy(to_.mutable_data_ptr(), from_.const_data_ptr(), from_.nbytes()); }
  void gather() {
    shard_.fill_(next_value(value_));
    copy();
  }
  double gather_and_read() {
    gather();
    return to_.sum().item<double>();
  }

 private:
  torch::Tensor from_, to_, shard_;
  float value_ = 0;
};

// The questions about gathers; `parts` makes what one of them works on.
template <typename Parts>
contestant::Deeds gathers(const std::string& prefix, Parts parts) {
  return {{prefix + "gather",
           [parts](const Json& command) {
             auto all = parts(command);
             return measure(command, [&] { all.gather(); });
           }},
          {prefix + "gather and read", [parts](const Json& command) {
             auto all = parts(command);
             return measure_reading(command, [&] { return all.gather_and_read(); });
           }}};
}

void take_part(fsdp::World& world, contestant::Conversation& conversation) {
  const torch::NoGradGuard no_grad;
  const auto group = world.state()->new_group();
  int units = 0;
  auto make_unit = [&](const Json& command) { return Unit(*group, units++, bytes_of(command) / kElementBytes); };
  contestant::Deeds deeds = gathers("", make_unit);
  deeds.merge(gathers("copy: ", [](const Json& command) { return Copies(command); }));
  deeds["reduce"] = [&](const Json& command) {
    Unit unit = make_unit(command);
    return measure(command, [&] { unit.reduce(); });
  };
  deeds["copy: reduce"] = [](const Json& command) {
    Copies copies(command);
    return measure(command, [&] { copies.copy(); });
  };
  deeds.merge(contestant::world_calls(world));
  conversation.answer(deeds);
}

}  // namespace

int main(int count, char** words) {
  std::string backend = "auto";
  CLI::App app("Collectives of one backend, told over standard input what to do; see bench/README.md.");
  app.add_option("--backend", backend, "whose collectives");
  CLI11_PARSE(app, count, words);
  contestant::Conversation conversation;
  return fsdp::launch({.backend = backend}, [&](fsdp::World& world) { take_part(world, conversation); });
}
