// The collectives of one backend, as a model uses them: one rank of a job whose launcher is the comparison.
#include <fsdp/fsdp.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "collectives/group.h"
#include "conversation.h"
#include "layout/gradient_layout.h"
#include "layout/unit_layout.h"
#include "world/state.h"

namespace {

using contestant::Json;
namespace collectives = fsdp::collectives;
namespace layout = fsdp::layout;

constexpr int64_t kElementBytes = 4;  // fp32

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

  // From the owners' permission to write to the last read: what a step pays for one gather of new parameters.
  void gather() {
    collectives_->begin_write(collectives::Readers::Wait);
    collectives_->publish();
    collectives_->begin_gather(buffer_, collectives::Order::Common);
    collectives_->wait_gather();
    collectives_->release();
  }

  void reduce() {
    sum_.held = {0};
    collectives_->begin_reduce({&gradient_layout_, gradients_, {1}, staging_}, sum_);
    collectives_->wait_reduce();
    collectives_->wait_sum();
  }

 private:
  layout::UnitLayout layout_;
  layout::GradientLayout gradient_layout_;
  std::unique_ptr<collectives::UnitCollectives> collectives_;
  torch::Tensor buffer_, gradients_, staging_;
  collectives::GradientSum sum_;
};

// Once unmeasured, so that memory is there; then the seconds of each repetition.
Json measure(const Json& command, const std::function<void()>& operation) {
  operation();
  Json seconds = Json::array();
  for (int64_t i = 0; i < command.at("repetitions"); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    operation();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    seconds.push_back(elapsed.count());
  }
  return {{"seconds", seconds}};
}

int64_t bytes_of(const Json& command) { return command.at("bytes"); }

// Each rank for itself.
Json measure_copy(const Json& command) {
  const torch::Tensor from = torch::ones({bytes_of(command)}, torch::kByte), to = torch::zeros_like(from);
  return measure(command, [&] { std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes()); });
}

void take_part(fsdp::World& world, contestant::Conversation& conversation) {
  const auto group = world.state()->new_group();
  int units = 0;
  auto make_unit = [&](const Json& command) { return Unit(*group, units++, bytes_of(command) / kElementBytes); };
  conversation.answer({
      {"gather",
       [&](const Json& command) {
         Unit unit = make_unit(command);
         return measure(command, [&] { unit.gather(); });
       }},
      {"reduce",
       [&](const Json& command) {
         Unit unit = make_unit(command);
         return measure(command, [&] { unit.reduce(); });
       }},
      {"copy", measure_copy},
  });
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
