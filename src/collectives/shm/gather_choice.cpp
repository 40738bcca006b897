#include "collectives/shm/gather_choice.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace fsdp::collectives::shm {

namespace {

constexpr char kVariable[] = "FSDP_SHM_GATHER";

enum class Wish : int32_t { None, Map, Copy };

const char* word_of(Wish wish) { return wish == Wish::Map ? "map" : wish == Wish::Copy ? "copy" : "not set"; }

Wish read_wish() {
  const char* variable = std::getenv(kVariable);
  const std::string word = variable ? variable : "";
  for (Wish wish : {Wish::Map, Wish::Copy}) {
    if (word == word_of(wish)) return wish;
  }
  FSDP_CHECK(word.empty(), "the environment has {}='{}', expected map or copy. Unset it to let the ranks find out.",
             kVariable, word);
  return Wish::None;
}

// What each rank says first.
struct Situation {
  Wish wish = Wish::None;
  int32_t node = 0;
};

// Every rank's.
template <typename Value>
std::vector<Value> tell(Context& context, const Value& own) {
  Exchange& exchange = context.exchange();
  exchange.round([&](char* mailbox) { std::memcpy(mailbox, &own, sizeof own); });
  std::vector<Value> all(context.ranks().size());
  for (int rank = 0; rank < context.ranks().size(); ++rank) std::memcpy(&all[rank], exchange.mailbox(rank), sizeof own);
  return all;
}

void check_same_wish(Ranks& ranks, const std::vector<Situation>& situations) {
  const Wish own = situations[ranks.rank()].wish;
  for (int peer : ranks.peers()) {
    const Wish theirs = situations[peer].wish;
    FSDP_CHECK(theirs == own, "shm: {} is {} on rank {} and {} on rank {}. Set it alike on every rank.", kVariable,
               word_of(theirs), ranks.name_of(peer), word_of(own), ranks.name_of(ranks.rank()));
  }
}

GatherBy find_out(Context& context, int peer, const GatherTrial& trial) {
  OwnMemory& memory = *context.memory();
  const uint64_t own = memory.allocate(kTrialBytes);
  const uint64_t theirs = tell(context, own)[peer];
  const GatherSeconds seconds = trial(context.memory_of(peer) + theirs);
  GatherSeconds all;
  for (const GatherSeconds& each : tell(context, seconds)) {
    all.map += each.map;
    all.copy += each.copy;
  }
  memory.free(own);  // who has told its times has read it
  return all.copy < all.map ? GatherBy::Copy : GatherBy::Map;
}

}  // namespace

GatherBy choose_gather(Context& context, int node, const GatherTrial& trial) {
  return context.guarded(message_prefix(), "shm", [&] {
    Ranks& ranks = context.ranks();
    const Situation own{read_wish(), node};
    context.exchange().begin("chooses how to gather", sizeof own);
    const std::vector<Situation> situations = tell(context, own);
    check_same_wish(ranks, situations);
    if (own.wish != Wish::None) return own.wish == Wish::Copy ? GatherBy::Copy : GatherBy::Map;
    const auto remote = std::find_if(ranks.peers().begin(), ranks.peers().end(),
                                     [&](int peer) { return situations[peer].node != node; });
    return remote == ranks.peers().end() ? GatherBy::Map : find_out(context, *remote, trial);
  });
}

}  // namespace fsdp::collectives::shm
