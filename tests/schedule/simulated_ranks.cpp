#include "schedule/simulated_ranks.h"

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

namespace fsdp::schedule {

SimulatedGroup::SimulatedGroup(int ranks, int units, int shards)
    : ranks(ranks),
      shards(shards),
      units(units),
      waits(ranks),
      said(ranks),
      made(ranks),
      ready_(ranks),
      where_(ranks),
      gone_(ranks) {
  for (Unit& unit : this->units) {
    unit.gathers.resize(ranks);
    unit.version.resize(ranks);
    unit.left.resize(ranks);
    unit.reductions.resize(ranks);
  }
}

bool SimulatedGroup::all_ranks(const std::function<bool(int)>& holds) const {
  for (int peer = 0; peer < ranks; ++peer) {
    if (!holds(peer)) return false;
  }
  return true;
}

bool SimulatedGroup::all_sharers(int rank, const std::function<bool(int)>& holds) const {
  return all_ranks([&](int peer) { return !share(rank, peer) || holds(peer); });
}

void SimulatedGroup::wait(std::unique_lock<std::mutex>& lock, int rank, const std::string& where,
                          const std::function<bool()>& ready) {
  changed();
  waits[rank] = 1;
  ready_[rank] = ready;
  where_[rank] = where;
  find_deadlock();
  condition_.wait(lock, [&] { return ready() || !deadlock_.empty(); });
  waits[rank] = 0;
  if (!ready()) throw std::logic_error(deadlock_);
}

void SimulatedGroup::leave(int rank) {
  const std::lock_guard lock(mutex);
  gone_[rank] = 1;
  find_deadlock();
  changed();
}

void SimulatedGroup::find_deadlock() {
  std::string all = "all wait:";
  for (int rank = 0; rank < ranks; ++rank) {
    if (gone_[rank] != 0) {
      all += " rank " + std::to_string(rank) + " has gone,";
      continue;
    }
    if (waits[rank] == 0 || ready_[rank]()) return;
    all += " rank " + std::to_string(rank) + " for " + where_[rank] + ",";
  }
  deadlock_ = all;
}

SimulatedRank::SimulatedRank(SimulatedGroup& group, int rank, const Facts& facts, const Limits& limits)
    : group_(group),
      rank_(rank),
      one_sided_(facts.one_sided),
      units_(facts.count()),
      driver(facts, limits, *this, *this, *this, {.changed = changed_, .local_sums = local_sums_}) {}

void SimulatedRank::check(bool holds, const std::string& problem, UnitId unit) const {
  if (holds) return;
  throw std::logic_error("rank " + std::to_string(rank_) + ": " + problem +
                         (unit < 0 ? "" : " (unit " + std::to_string(unit) + ")"));
}

void SimulatedRank::use(UnitId unit, Mode mode, bool runs_again) {
  driver.note_backward(mode == Mode::Backward, /*abandoned=*/false);
  driver.operator_begins({&unit, 1}, mode, runs_again, "mm");
  check(units_[unit].full == Full::Full, "an operator runs on a unit that is not full", unit);
  driver.operator_ends({&unit, 1});
}

void SimulatedRank::gradient(UnitId id, int64_t value, int trainable) {
  Unit& unit = units_[id];
  driver.note_backward(/*inside=*/true, /*abandoned=*/false);
  driver.check_gradient(id);
  {
    const std::lock_guard lock(group_.mutex);
    group_.made[rank_][step_][id] += value;
  }
  if (!driver.gradient_comes(id, unit.has_late)) {
    unit.late += value;
    unit.has_late = true;
    return;
  }
  const auto open = std::ranges::find(gradients_, id, &std::pair<const int, UnitId>::second);
  check(open != gradients_.end(), "a gradient has no buffer", id);
  unit.open += value;
  driver.gradient_is_there(id, trainable);
}

void SimulatedRank::step() {
  driver.step(this);
  check(stepped[step_].size() == units_.size(), "a step leaves units out");
  driver.zero_grad();
  for (Unit& unit : units_) unit.sum = 0;
  ++step_;
}

void SimulatedRank::zero_grad() {
  driver.zero_grad();
  for (Unit& unit : units_) unit.sum = 0, unit.open = 0;
  const std::lock_guard lock(group_.mutex);
  group_.made[rank_].erase(step_);
}

void SimulatedRank::load() {
  driver.note_backward(/*inside=*/false, /*abandoned=*/false);
  driver.check(Call::LoadCheckpoint, "load_checkpoint");
  driver.end_broken_step();
  driver.begin_write();
  driver.publish();
}

void SimulatedRank::abandon_backward() { driver.note_backward(/*inside=*/false, /*abandoned=*/true); }

int SimulatedRank::take_part(UnitId id) {
  SimulatedGroup::Unit& unit = group_.units[id];
  const int gather = ++unit.gathers[rank_], version = unit.version[rank_];
  const int first = unit.versions.try_emplace({rank_ / group_.shards, gather}, version).first->second;
  check(first == version, "ranks gather shards of different steps", id);
  group_.changed();
  return gather;
}

// One-sided: peers have written as often as this rank. Otherwise they have taken part as often.
void SimulatedRank::await(std::unique_lock<std::mutex>& lock, UnitId id, int gather) {
  SimulatedGroup::Unit& unit = group_.units[id];
  const int version = unit.version[rank_];
  const auto ready = [&](int peer) {
    return one_sided_ ? unit.version[peer] >= version : unit.gathers[peer] >= gather;
  };
  group_.wait(lock, rank_, "a gather of unit " + std::to_string(id), [&] { return group_.all_sharers(rank_, ready); });
  if (!one_sided_) return;
  const bool same = group_.all_sharers(rank_, [&](int peer) { return unit.version[peer] == version; });
  check(same, "a shard was written while it was read", id);
}

void SimulatedRank::gather(UnitId id, int buffer, Order) {
  std::unique_lock lock(group_.mutex);
  Unit& unit = units_[id];
  check(unit.full == Full::Sharded, "a gather of a unit that is there", id);
  check(!unit.writes, "a gather of a unit that is being written", id);
  check(full_.emplace(buffer, id).second, "a gather into a buffer that is taken", id);
  check(group_.units[id].left[rank_] <= group_.units[id].version[rank_], "a gather of a unit that was left", id);
  unit.full = Full::Gathering;
  unit.buffer = buffer;
  if (!one_sided_) unit.gather = take_part(id);
}

// Exact, as real ones are: a peer that has sent more messages than this rank waits for it there.
bool SimulatedRank::gather_stalls(UnitId id) {
  std::unique_lock lock(group_.mutex);
  const SimulatedGroup::Unit& unit = group_.units[id];
  const auto complete = [&](int peer) { return unit.gathers[peer] >= units_[id].gather; };
  const auto stalls = [&](int peer) { return !complete(peer) && group_.said[peer] > group_.said[rank_]; };
  const auto any_stalls = [&] { return !group_.all_sharers(rank_, [&](int peer) { return !stalls(peer); }); };
  group_.wait(lock, rank_, "a gather of unit " + std::to_string(id),
              [&] { return group_.all_sharers(rank_, complete) || any_stalls(); });
  return !group_.all_sharers(rank_, complete);
}

void SimulatedRank::await_gather(UnitId id) {
  std::unique_lock lock(group_.mutex);
  check(units_[id].full == Full::Gathering, "a wait for no gather", id);
  await(lock, id, units_[id].gather);
  units_[id].full = Full::Full;
}

void SimulatedRank::gather_for_peers(UnitId id, int spare) {
  std::unique_lock lock(group_.mutex);
  check(!full_.contains(spare), "a spare buffer is taken", id);
  check(!one_sided_, "peers need nobody", id);
  await(lock, id, take_part(id));
}

void SimulatedRank::release(UnitId id, int buffer) {
  Unit& unit = units_[id];
  check(unit.full == Full::Full, "a release of a unit that is not full", id);
  check(unit.buffer == buffer && full_.at(buffer) == id, "a release of another buffer", id);
  full_.erase(buffer);
  unit.full = Full::Sharded;
}

void SimulatedRank::open_gradients(UnitId id, int buffer) {
  check(gradients_.emplace(buffer, id).second, "a gradient buffer is taken", id);
  units_[id].open += std::exchange(units_[id].late, 0);
  units_[id].has_late = false;
}

void SimulatedRank::reduce(UnitId id, int buffer) {
  const std::lock_guard lock(group_.mutex);
  check(gradients_.at(buffer) == id, "a reduction of another buffer", id);
  group_.units[id].reductions[rank_].push_back(std::exchange(units_[id].open, 0));
  group_.changed();
}

Begun SimulatedRank::has_begun(UnitId id) {
  std::unique_lock lock(group_.mutex);
  const auto& reductions = group_.units[id].reductions;
  const size_t own = reductions[rank_].size();
  const auto begun = [&](int peer) { return reductions[peer].size() >= own; };
  const auto waits = [&](int peer) { return !begun(peer) && group_.waits[peer] != 0; };
  group_.wait(lock, rank_, "a reduction of unit " + std::to_string(id),
              [&] { return group_.all_ranks(begun) || !group_.all_ranks([&](int peer) { return !waits(peer); }); });
  return group_.all_ranks(begun) ? Begun::Yes : Begun::PeerStalls;
}

void SimulatedRank::await_reduction(UnitId id, int buffer, bool) {
  std::unique_lock lock(group_.mutex);
  check(gradients_.at(buffer) == id, "a wait for another buffer", id);
  const auto& reductions = group_.units[id].reductions;
  const size_t own = reductions[rank_].size();
  group_.wait(lock, rank_, "the end of a reduction of unit " + std::to_string(id),
              [&] { return group_.all_ranks([&](int peer) { return reductions[peer].size() >= own; }); });
  for (const auto& of_rank : reductions) units_[id].sum += of_rank[own - 1];
  gradients_.erase(buffer);
  has_gradients_ = true;
}

void SimulatedRank::move_gradients(int from, int to) {
  const UnitId unit = gradients_.at(from);
  gradients_.erase(from);
  check(gradients_.emplace(to, unit).second, "a gradient buffer is taken", unit);
}

// Buffers of units that stay open, with gradients of no_sync scopes, stay.
std::vector<UnitId> SimulatedRank::end_reductions(bool everywhere, bool, int buffers) {
  if (!everywhere) {
    gradients_.clear();
    for (Unit& unit : units_) unit.open = 0;
  }
  check(gradients_.empty() || gradients_.rbegin()->first < buffers, "a gradient buffer is freed that is taken");
  return {};
}

void SimulatedRank::begin_write_of(std::unique_lock<std::mutex>& lock, UnitId id, bool waits) {
  SimulatedGroup::Unit& unit = group_.units[id];
  check(units_[id].full == Full::Sharded, "a unit is written that is full", id);
  check(!units_[id].writes, "a unit is written that is being written", id);
  const int next = unit.version[rank_] + 1;
  unit.left[rank_] = next;
  group_.changed();
  if (!waits || !one_sided_) return;
  group_.wait(lock, rank_, "the readers of unit " + std::to_string(id),
              [&, next] { return group_.all_sharers(rank_, [&](int peer) { return unit.left[peer] >= next; }); });
}

bool SimulatedRank::begin_write(UnitId id, Readers readers) {
  std::unique_lock lock(group_.mutex);
  SimulatedGroup::Unit& unit = group_.units[id];
  begin_write_of(lock, id, /*waits=*/readers != Readers::Ask);
  const auto left = [&](int peer) { return unit.left[peer] > unit.version[rank_]; };
  if (one_sided_ && !group_.all_sharers(rank_, left)) return false;
  units_[id].writes = true;
  return true;
}

void SimulatedRank::written(UnitId id) {
  const std::lock_guard lock(group_.mutex);
  check(std::exchange(units_[id].writes, false), "a unit is published that was not opened", id);
  ++group_.units[id].version[rank_];
  group_.changed();
}

void SimulatedRank::publish(UnitId unit) { written(unit); }

void SimulatedRank::begin_all_writes() {
  for (UnitId unit = 0; unit < static_cast<UnitId>(units_.size()); ++unit) begin_write(unit, Readers::Wait);
}

void SimulatedRank::publish_all() {
  for (UnitId unit = 0; unit < static_cast<UnitId>(units_.size()); ++unit) written(unit);
}

void SimulatedRank::update(UnitId id, bool) {
  check(stepped[step_].emplace(id, std::exchange(units_[id].sum, 0)).second, "a unit is stepped twice", id);
  written(id);
}

std::vector<Message> SimulatedRank::all_gather(std::span<const int64_t> words, const std::string& purpose) {
  std::unique_lock lock(group_.mutex);
  const size_t number = group_.said[rank_]++;
  if (group_.messages.size() <= number) group_.messages.resize(number + 1, std::vector<Message>(group_.ranks));
  group_.messages[number][rank_].assign(words.begin(), words.end());
  group_.wait(lock, rank_, "all ranks, as it " + purpose,
              [&, number] { return group_.all_ranks([&](int peer) { return group_.said[peer] > number; }); });
  const std::vector<Message> all = group_.messages[number];
  for (const Message& one : all) check(one.size() == words.size(), "messages have different lengths");
  return all;
}

std::vector<std::string> run_simulated(Facts facts, Limits limits,
                                       const std::function<void(SimulatedRank&, int)>& program) {
  limits.units = facts.count();
  SimulatedGroup group(facts.ranks, facts.count(), facts.shards);
  std::vector<std::unique_ptr<SimulatedRank>> ranks;
  for (int rank = 0; rank < facts.ranks; ++rank) {
    facts.rank = rank;
    facts.sharers.clear();
    for (int peer = 0; peer < facts.ranks; ++peer) facts.sharers.push_back(group.share(rank, peer));
    ranks.push_back(std::make_unique<SimulatedRank>(group, rank, facts, limits));
  }
  std::vector<std::string> errors(facts.ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < facts.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        program(*ranks[rank], rank);
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
      group.leave(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<int, std::map<int, int64_t>> made;
  for (const auto& of_rank : group.made) {
    for (const auto& [step, sums] : of_rank) {
      for (const auto& [unit, sum] : sums) made[step][unit] += sum;
    }
  }
  for (int rank = 0; rank < facts.ranks && errors[rank].empty(); ++rank) {
    for (const auto& [step, sums] : ranks[rank]->stepped) {
      for (const auto& [unit, sum] : sums) {
        if (sum == made[step][unit]) continue;
        errors[rank] = "rank " + std::to_string(rank) + ", step " + std::to_string(step) + ", unit " +
                       std::to_string(unit) + ": found the sum " + std::to_string(sum) + ", expected " +
                       std::to_string(made[step][unit]);
      }
    }
  }
  return errors;
}

}  // namespace fsdp::schedule
