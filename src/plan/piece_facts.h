// Facts about the pieces of a model. Its layers are alike, so that each kind of piece is looked at once.
#pragma once

#include <map>
#include <utility>

#include "plan/activations.h"

namespace fsdp::plan {

// `Facts` are made of a piece and further arguments, which are the same in all calls.
template <typename Facts>
class FactsOfPieces {
 public:
  template <typename... Arguments>
  const Facts& of(const Piece& piece, const Arguments&... arguments) {
    const std::pair key{piece.graph, piece.keep};
    const auto found = facts_.find(key);
    return found != facts_.end() ? found->second : facts_.emplace(key, Facts(piece, arguments...)).first->second;
  }

 private:
  std::map<std::pair<const Graph*, KeptResults>, Facts> facts_;
};

}  // namespace fsdp::plan
