// Every order in which the steps of two ranks can fall, over two units and three training steps, with writes between
// the steps and with writes that are tried before: no rank reads what is being written, every read sees the latest
// version, every sum has all addends, and somebody can always go on.
//
// The counters and their questions are the library's own (unit_counters.h); around them, each rank's program and the
// memory are modelled in steps so small that what lies between two of them does not matter to the other rank. Memory is
// a version and who is at it. Sums are added up at any time between two steps of the rank's program, as `advance` does.
#include "collectives/shm/unit_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace fsdp::collectives::shm {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 2, kUnits = 2, kSteps = 3;
constexpr int8_t kOverwritten = -1;

// A question that a broken protocol does not ask. EndedReads is what a rank asks itself: whether it has entered the
// epoch that it is about to write for.
enum class Omitted { None, Entered, Published, Offered, Taken, Copied, EndedReads };

// When shards are written: at the beginning of a step, or before, as soon as a rank needs the unit no more, where that
// need not be waited for; or only before the first step, as where gradients are dropped without one.
enum class Writes { BetweenSteps, Early, Once };

enum class Do {
  BeginWrite,  // enters the epoch
  TryWrite,    // if all have entered
  PublishTried,
  Write,  // once all have entered
  Publish,
  Read,  // once all have published
  EndRead,
  Copy,  // one owner's shard, once that one has published
  EndCopy,
  WriteGradients,
  Offer,
  AwaitSum,      // of the own slice
  TakeReplicas,  // once all have taken; the sum takes the place of the gradients
  EndTake,
  AwaitCopied,  // by all
};

struct Instruction {
  Do what;
  int unit;
  int owner = -1;  // of what is copied
};

// Ranks reduce in opposite orders; the second one reads between its reductions, and once more, by a copy, behind each
// sum. Where writes are early, the second one leaves all of them to the next step once.
std::vector<Instruction> program_of(int rank, Writes writes) {
  std::vector<Instruction> program;
  auto add = [&](int unit, std::initializer_list<Do> all) {
    for (Do what : all) program.push_back({what, unit});
  };
  auto read_all = [&] {
    for (int unit = 0; unit < kUnits; ++unit) add(unit, {Do::Read, Do::EndRead});
  };
  auto copy = [&](int unit) {
    for (int owner : {rank, 1 - rank}) {
      program.push_back({Do::Copy, unit, owner});
      program.push_back({Do::EndCopy, unit, owner});
    }
  };
  const std::vector<int> order = rank == 0 ? std::vector{0, 1} : std::vector{1, 0};
  for (int step = 0; step < kSteps; ++step) {
    for (int unit = 0; unit < kUnits; ++unit) {
      if (step > 0 && writes == Writes::Once) continue;
      if (step > 0) add(unit, {Do::BeginWrite});
      add(unit, {Do::Write, Do::Publish});
    }
    if (rank == 0) read_all();
    add(order[0], {Do::WriteGradients, Do::Offer});
    if (rank == 1) read_all();
    add(order[1], {Do::WriteGradients, Do::Offer});
    const bool early = writes == Writes::Early && (rank == 0 || step != 1);
    for (int unit : order) {
      add(unit, {Do::AwaitSum, Do::TakeReplicas, Do::EndTake});
      if (rank == 1) copy(unit);
      if (early) add(unit, {Do::BeginWrite, Do::TryWrite, Do::PublishTried});
    }
    if (early) add(order[0], {Do::TryWrite, Do::PublishTried});
    for (int unit : order) add(unit, {Do::AwaitCopied});
  }
  return program;
}

// One rank's part in one unit.
struct Part {
  explicit Part(UnitControl& control) : counters(control) {}

  UnitCounters counters;
  uint64_t values[5] = {};  // of the control's counters
  int8_t shard = 0;         // version
  int8_t gradients = 0;     // of which reduction
  int8_t sums = 0;          // the same, as replicas see them
  int8_t number = 0;        // of the reduction that this rank has offered
  int8_t summed = 0;        // the last one that it has added up
  int8_t copies = -1;       // the owner whose shard this rank copies
  bool writes = false, reads = false, takes = false;
  bool ended_reads = false;  // and not begun to write
  bool written = false;      // early, for the next step
};

struct State {
  std::vector<Part> parts;           // rank * kUnits + unit
  std::vector<int8_t> at{0, 0};      // each rank's place in its program
  std::vector<int8_t> adds{-1, -1};  // the unit whose slice each rank is adding up

  Part& part(int rank, int unit) { return parts[rank * kUnits + unit]; }

  std::string key() const {
    std::string key(at.begin(), at.end());
    key.append(adds.begin(), adds.end());
    for (const Part& part : parts) {
      for (uint64_t value : part.values) key += static_cast<char>(value);
      for (int8_t number : {part.shard, part.gradients, part.sums, part.number, part.summed, part.copies})
        key += static_cast<char>(number);
      key +=
          static_cast<char>(part.writes + 2 * part.reads + 4 * part.takes + 8 * part.ended_reads + 16 * part.written);
    }
    return key;
  }
};

class Model {
 public:
  explicit Model(Omitted omitted, Writes writes = Writes::BetweenSteps)
      : omitted_(omitted), controls_(kRanks * kUnits), programs_{program_of(0, writes), program_of(1, writes)} {}

  // The first violation; empty when there is none. `states` counts what was visited.
  std::string explore(size_t& states);

 private:
  UnitControl& control(int rank, int unit) { return controls_[rank * kUnits + unit]; }
  template <typename Question>
  bool all(Omitted question, int unit, Question&& has) {
    if (omitted_ == question) return true;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (!has(control(rank, unit))) return false;
    }
    return true;
  }
  void load(State& state);
  void store(State& state);
  bool perform(State& state, int rank, Instruction instruction);
  bool add_up(State& state, int rank, int unit);
  std::vector<State> successors(const State& state);
  void require(bool condition, const char* otherwise) {
    if (!condition && violation_.empty()) violation_ = otherwise;
  }

  Omitted omitted_;
  std::vector<UnitControl> controls_;
  const std::vector<Instruction> programs_[kRanks];
  std::string violation_;
};

void Model::load(State& state) {
  for (size_t i = 0; i < controls_.size(); ++i) {
    const uint64_t* values = state.parts[i].values;
    controls_[i].entered.set(values[0]);
    controls_[i].published.set(values[1]);
    controls_[i].offered.set(values[2]);
    controls_[i].taken.set(values[3]);
    controls_[i].copied.set(values[4]);
  }
}

void Model::store(State& state) {
  for (size_t i = 0; i < controls_.size(); ++i) {
    const UnitControl& from = controls_[i];
    uint64_t* values = state.parts[i].values;
    values[0] = from.entered.get(), values[1] = from.published.get();
    values[2] = from.offered.get(), values[3] = from.taken.get(), values[4] = from.copied.get();
  }
}

// False when the rank has to wait.
bool Model::perform(State& state, int rank, Instruction instruction) {
  const int unit = instruction.unit;
  Part& own = state.part(rank, unit);
  UnitCounters& counters = own.counters;
  auto parts = [&](auto&& condition) {
    for (int other = 0; other < kRanks; ++other) {
      if (!condition(state.part(other, unit), other)) return false;
    }
    return true;
  };
  switch (instruction.what) {
    case Do::BeginWrite:
      if (own.written || (own.ended_reads && omitted_ != Omitted::EndedReads)) return true;
      own.ended_reads = true;
      counters.enter();
      return true;
    case Do::TryWrite:
    case Do::Write:
      if (own.written) return true;
      // The first epoch has begun for all.
      if (own.shard > 0 && !all(Omitted::Entered, unit, [&](auto& peer) { return counters.has_entered(peer); }))
        return instruction.what == Do::TryWrite;
      own.ended_reads = false;
      require(parts([&](const Part& part, int) { return !part.reads && part.copies != rank; }),
              "a shard is written while a rank reads it");
      own.writes = true;
      ++own.shard;
      return true;
    case Do::PublishTried:
      if (!own.writes) return true;
      own.written = true;
      own.writes = false;
      counters.publish();
      return true;
    case Do::Publish:
      if (std::exchange(own.written, false)) return true;
      own.writes = false;
      counters.publish();
      return true;
    case Do::Read:
      if (!all(Omitted::Published, unit, [&](auto& peer) { return counters.has_published(peer); })) return false;
      require(parts([](const Part& part, int) { return !part.writes; }), "a shard is read while its owner writes it");
      require(parts([&](const Part& part, int) { return part.shard == own.shard; }), "a version was lost");
      own.reads = true;
      return true;
    case Do::EndRead:
      own.reads = false;
      return true;
    case Do::Copy: {
      const int owner = instruction.owner;
      if (omitted_ != Omitted::Published && !counters.has_published(control(owner, unit))) return false;
      require(!state.part(owner, unit).writes, "a shard is read while its owner writes it");
      require(state.part(owner, unit).shard == own.shard, "a version was lost");
      own.copies = static_cast<int8_t>(owner);
      return true;
    }
    case Do::EndCopy:
      own.copies = -1;
      return true;
    case Do::WriteGradients:
      for (int other = 0; other < kRanks; ++other)
        require(state.adds[other] != unit, "gradients are written while a rank adds them up");
      own.gradients = static_cast<int8_t>(own.number + 1);
      own.sums = kOverwritten;  // it lies where the gradients do
      return true;
    case Do::Offer:
      ++own.number;
      counters.offer();
      return true;
    case Do::AwaitSum:
      return own.summed == own.number;
    case Do::TakeReplicas:
      if (!all(Omitted::Taken, unit, [&](auto& peer) { return counters.has_taken(peer); })) return false;
      require(parts([&](const Part& part, int) { return part.sums == own.number; }), "a replica's sum is not its last");
      for (int other = 0; other < kRanks; ++other)
        require(state.adds[other] != unit, "gradients are overwritten while a rank adds them up");
      own.gradients = kOverwritten;
      own.takes = true;
      return true;
    case Do::EndTake:
      require(parts([&](const Part& part, int) { return part.sums == own.number; }), "a replica's sum is not its last");
      own.takes = false;
      counters.copy();
      return true;
    case Do::AwaitCopied:
      return all(Omitted::Copied, unit, [&](auto& peer) { return counters.has_copied(peer); });
  }
  return false;
}

// Begins to add up, or ends it. False where there is nothing to do.
bool Model::add_up(State& state, int rank, int unit) {
  Part& own = state.part(rank, unit);
  if (state.adds[rank] == unit) {
    state.adds[rank] = -1;
    own.summed = own.number;
    own.counters.take();
    return true;
  }
  if (state.adds[rank] >= 0 || own.summed == own.number) return false;
  if (!all(Omitted::Offered, unit, [&](auto& peer) { return own.counters.has_offered(peer); })) return false;
  for (int other = 0; other < kRanks; ++other) {
    const Part& part = state.part(other, unit);
    require(part.gradients == own.number, "a sum lacks an addend");
    require(other == rank || !part.takes, "a sum is overwritten while a replica takes it");
  }
  own.sums = own.number;
  state.adds[rank] = static_cast<int8_t>(unit);
  return true;
}

std::vector<State> Model::successors(const State& state) {
  std::vector<State> all;
  auto attempt = [&](auto&& step) {
    State next = state;
    load(next);
    if (!step(next)) return;
    store(next);
    all.push_back(std::move(next));
  };
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int unit = 0; unit < kUnits; ++unit) attempt([&](State& next) { return add_up(next, rank, unit); });
    // One thread does both.
    if (state.adds[rank] >= 0 || state.at[rank] == static_cast<int8_t>(programs_[rank].size())) continue;
    attempt([&](State& next) { return perform(next, rank, programs_[rank][next.at[rank]++]); });
  }
  return all;
}

std::string Model::explore(size_t& states) {
  State first;
  for (UnitControl& control : controls_) first.parts.emplace_back(control);
  std::vector<State> open{first};
  std::unordered_set<std::string> seen{first.key()};
  while (!open.empty() && violation_.empty()) {
    const State state = std::move(open.back());
    open.pop_back();
    const std::vector<State> next = successors(state);
    bool ended = true;
    for (int rank = 0; rank < kRanks; ++rank) ended &= state.at[rank] == static_cast<int8_t>(programs_[rank].size());
    require(ended || !next.empty(), "no rank can continue");
    for (const State& one : next) {
      if (seen.insert(one.key()).second) open.push_back(one);
    }
  }
  states = seen.size();
  return violation_;
}

TEST(Interleavings, AreAllCorrect) {
  for (Writes writes : {Writes::BetweenSteps, Writes::Early, Writes::Once}) {
    size_t states = 0;
    EXPECT_EQ(Model(Omitted::None, writes).explore(states), "");
    EXPECT_GT(states, 1000u);  // nothing was left out by mistake
    RecordProperty("states_" + std::to_string(static_cast<int>(writes)), std::to_string(states));
  }
}

// Without any one of its questions the protocol is wrong, and the model finds it.
TEST(Interleavings, ShowWhatEachQuestionIsFor) {
  size_t states = 0;
  EXPECT_EQ(Model(Omitted::Entered).explore(states), "a shard is written while a rank reads it");
  EXPECT_THAT(Model(Omitted::Published).explore(states),
              ::testing::AnyOf("a shard is read while its owner writes it", "a version was lost"));
  EXPECT_EQ(Model(Omitted::Offered).explore(states), "a sum lacks an addend");
  EXPECT_THAT(Model(Omitted::Taken).explore(states),
              ::testing::AnyOf("a replica's sum is not its last", "gradients are written while a rank adds them up",
                               "gradients are overwritten while a rank adds them up"));
  EXPECT_EQ(Model(Omitted::Copied, Writes::Once).explore(states), "a replica's sum is not its last");
  EXPECT_THAT(Model(Omitted::Entered, Writes::Early).explore(states),
              ::testing::AnyOf("a shard is written while a rank reads it", "a version was lost"));
  EXPECT_THAT(Model(Omitted::EndedReads, Writes::Early).explore(states),
              ::testing::AnyOf("no rank can continue", "a version was lost"));
}

}  // namespace
}  // namespace fsdp::collectives::shm
