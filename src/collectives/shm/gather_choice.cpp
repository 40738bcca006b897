#include "collectives/shm/gather_choice.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/rank_names.h"

namespace fsdp::collectives::shm {

namespace {

constexpr char kVariable[] = "FSDP_SHM_GATHER";

// The variable's value.
enum class Setting : int32_t { None, Map, Copy };

const char* word_of(Setting setting) {
  return setting == Setting::Map ? "map" : setting == Setting::Copy ? "copy" : "not set";
}

Setting read_setting() {
  const char* variable = std::getenv(kVariable);
  const std::string word = variable ? variable : "";
  for (Setting setting : {Setting::Map, Setting::Copy}) {
    if (word == word_of(setting)) return setting;
  }
  FSDP_CHECK(word.empty(), "the environment has {}='{}', expected map or copy. Unset it to let the ranks find out.",
             kVariable, word);
  return Setting::None;
}

// A rank's first message.
struct RankFacts {
  Setting setting = Setting::None;
  int32_t node = 0;
};

void check_same_setting(Ranks& ranks, const std::vector<RankFacts>& facts) {
  const Setting own = facts[ranks.rank()].setting;
  for (int peer : ranks.peers()) {
    const Setting theirs = facts[peer].setting;
    FSDP_CHECK(theirs == own, "shm: {} is {} on {} and {} on {}. Set the same value on every rank.", kVariable,
               word_of(theirs), text_of_rank(ranks.name_of(peer)), word_of(own),
               text_of_rank(ranks.name_of(ranks.rank())));
  }
}

GatherBy find_out(SharedMemoryContext& context, int peer, const GatherTrial& trial) {
  OwnMemory& memory = *context.memory();
  const uint64_t own = memory.allocate(kTrialBytes);
  const uint64_t theirs = context.exchange().tell(own)[peer];
  const GatherSeconds seconds = trial(context.memory_of(peer).at(theirs));
  GatherSeconds all;
  for (const GatherSeconds& each : context.exchange().tell(seconds)) {
    all.map += each.map;
    all.copy += each.copy;
  }
  memory.free(own);  // who has told its times has read it
  return all.copy < all.map ? GatherBy::Copy : GatherBy::Map;
}

}  // namespace

GatherBy choose_gather(SharedMemoryContext& context, int node, const GatherTrial& trial) {
  return context.guarded(message_prefix(), "shm", [&] {
    Ranks& ranks = context.ranks();
    const RankFacts own{read_setting(), node};
    context.exchange().begin("chooses how to gather", sizeof own);
    const std::vector<RankFacts> facts = context.exchange().tell(own);
    check_same_setting(ranks, facts);
    if (own.setting != Setting::None) return own.setting == Setting::Copy ? GatherBy::Copy : GatherBy::Map;
    const auto remote =
        std::find_if(ranks.peers().begin(), ranks.peers().end(), [&](int peer) { return facts[peer].node != node; });
    return remote == ranks.peers().end() ? GatherBy::Map : find_out(context, *remote, trial);
  });
}

}  // namespace fsdp::collectives::shm
