// Strategies as messages and reports call them.
#pragma once

#include "base/error.h"
#include "fsdp/options.h"

namespace fsdp {

inline const char* name_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::FullShard:
      return "FullShard";
    case Strategy::ShardGradOp:
      return "ShardGradOp";
    case Strategy::ShardOptimizer:
      return "ShardOptimizer";
    case Strategy::NoShard:
      return "NoShard";
    case Strategy::HybridShard:
      return "HybridShard";
    case Strategy::HybridShardGradOp:
      return "HybridShardGradOp";
  }
  throw_error(message_prefix() + fmt::format("shard: {} is not a strategy", static_cast<int>(strategy)));
}

}  // namespace fsdp
