// A scope in which the module's parameters are whole, in memory of their own: what a FullParameters handle owns.
//
// At its end the values are the model's, if they are written back. A scope that an exception leaves writes nothing
// back. It takes the model's lock itself.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/model.h"

namespace fsdp::engine {

class FullScope {
 public:
  // A collective. Throws Error where another scope is open, where the shards cannot be read now, and for a pattern that
  // matches no unit.
  FullScope(std::shared_ptr<Model> model, FullParametersOptions options);
  // Writes nothing back.
  ~FullScope();
  FullScope(const FullScope&) = delete;
  FullScope& operator=(const FullScope&) = delete;

  // Writes back, if that was asked for. A collective.
  void close();
  // True if an exception that came since the scope was opened is leaving it.
  bool is_unwound() const { return std::uncaught_exceptions() > exceptions_; }
  int64_t bytes() const;  // of the full units

  // An operator takes these units, of which it writes `written`. Throws Error where the scope does not hold them, or
  // where the write would be lost.
  void check_use(std::span<const int> units, std::optional<int> written, std::string_view operation) const;

 private:
  bool holds(const ShardedUnit& unit) const;
  void check_patterns() const;
  void make_full();
  void end();
  void write_back();
  void take_from_rank0(size_t unit);

  std::shared_ptr<Model> model_;  // null once closed
  Parts& parts_;
  FullParametersOptions options_;
  std::vector<torch::Tensor> full_;  // of each unit; undefined where it stays sharded
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace fsdp::engine
