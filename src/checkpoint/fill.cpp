#include "checkpoint/fill.h"

#include <exception>

#include "base/error.h"
#include "checkpoint/contents.h"

namespace fsdp::checkpoint {

void fill(engine::Model& model, const Filling& filling) {
  model.begin_load(filling.call, filling.what, filling.whole);
  std::string problem;
  try {
    filling.write();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  model.publish();
  try {
    const CheckpointRanks own(model, std::nullopt);
    (filling.ranks != nullptr ? *filling.ranks : own).all_succeed(filling.what, [&] {
      if (!problem.empty()) throw Error(problem);
    });
  } catch (...) {
    if (filling.break_off) filling.break_off();
    model.break_off_load(filling.there);
    throw;
  }
  model.end_load(filling.whole);
}

}  // namespace fsdp::checkpoint
