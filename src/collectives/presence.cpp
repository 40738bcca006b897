#include "collectives/presence.h"

#include "base/error.h"
#include "base/rank_names.h"

namespace fsdp::collectives {

void check_same_left_out(std::span<const uint8_t> own, std::span<const uint8_t> theirs, int rank,
                         const std::string& unit) {
  for (size_t i = 0; i < own.size(); ++i) {
    FSDP_CHECK_UNIT((own[i] == kLeftOut) == (theirs[i] == kLeftOut), unit,
                    "reduce: on {} parameter {} of the unit (the first is 0) is {}, here it is {}. Freeze and "
                    "unfreeze the same parameters on every rank, between the same backwards.",
                    text_of_rank(rank), i, theirs[i] == kLeftOut ? "frozen" : "trainable",
                    own[i] == kLeftOut ? "frozen" : "trainable");
  }
}

}  // namespace fsdp::collectives
