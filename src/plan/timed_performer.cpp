#include "plan/timed_performer.h"

#include <algorithm>

namespace fsdp::plan {

namespace {

double of_unit(const std::vector<double>& seconds, UnitId unit) { return seconds.empty() ? 0 : seconds[unit]; }

}  // namespace

TimedPerformer::TimedPerformer(const schedule::Facts& facts, const StepDurations& durations, RankExchange& exchange,
                               StepClock& clock, ActionList& actions)
    : facts_(facts),
      durations_(durations),
      exchange_(exchange),
      clock_(clock),
      actions_(actions),
      units_(facts.units.size()) {}

TimedPerformer::Transfer TimedPerformer::begin_transfer(Kind kind, TransferStream& stream, UnitId unit, int buffer,
                                                        double ready, double seconds) {
  Transfer transfer{.issued = ready};
  Interval interval{ready, ready};
  if (durations_.beside) {
    transfer.number = stream.begin(ready, seconds);
    interval = stream.at(transfer.number);
  }
  const Stream name = kind == Kind::Gather ? Stream::Gathers : Stream::Reductions;
  transfer.action = actions_.add(kind, unit, interval, name, buffer);
  return transfer;
}

double TimedPerformer::end_of(TransferStream& stream, const Transfer& transfer, double peers) {
  if (!durations_.beside) return std::max(transfer.issued, peers);
  stream.delay(transfer.number, peers);
  const Interval interval = stream.at(transfer.number);
  actions_.move(transfer.action, interval);
  return interval.end;
}

// `seconds`: the rank's own work once its peers are there, if nothing else moves bytes.
void TimedPerformer::wait_for(Kind wait, UnitId unit, double until, double seconds, Cause cause) {
  if (in_end_) cause = Cause::EndOfBackward;
  Interval interval = clock_.wait(until, cause);
  if (!durations_.beside) interval.end = clock_.wait(clock_.now() + seconds, cause).end;
  actions_.add(wait, unit, interval);
}

// The buffer is free once the operators on the unit before are over.
void TimedPerformer::gather(UnitId unit, int buffer, Order) {
  if (!facts_.divided()) return;
  const auto number = static_cast<size_t>(buffer);
  const double free = number < buffers_free_.size() ? buffers_free_[number] : 0;
  const double ready = std::max(clock_.host(), free);
  units_[unit].gather =
      begin_transfer(Kind::Gather, clock_.gathers(), unit, buffer, ready, of_unit(durations_.gather, unit));
  units_[unit].gather.count = exchange_.add(Deed::Gather, unit, ready);
}

bool TimedPerformer::gather_stalls(UnitId unit) {
  const bool come =
      exchange_.await(Deed::Gather, unit, units_[unit].gather.count, Who::Sharers, "a gather", /*may_stall=*/true);
  actions_.add(Kind::WaitPeers, unit, moment(), Stream::Gathers);
  return !come;
}

// A one-sided gather needs shards that are as new as this rank's; the others need the peers' gathers.
void TimedPerformer::await_gather(UnitId unit) {
  if (!facts_.divided()) return;
  const Transfer& gather = units_[unit].gather;
  const Deed deed = facts_.one_sided ? Deed::Publish : Deed::Gather;
  const size_t count = facts_.one_sided ? exchange_.count(Deed::Publish, unit) : gather.count;
  exchange_.await(deed, unit, count, Who::Sharers, "a gather");
  const double peers = exchange_.latest(deed, unit, count, Who::Sharers);
  wait_for(Kind::WaitGather, unit, end_of(clock_.gathers(), gather, peers), of_unit(durations_.gather, unit),
           Cause::Gathers);
}

void TimedPerformer::gather_for_peers(UnitId unit, int spare) {
  const Transfer own = units_[unit].gather;
  gather(unit, spare, Order::Common);
  await_gather(unit);
  units_[unit].gather = own;
}

void TimedPerformer::release(UnitId unit, int buffer) {
  const auto number = static_cast<size_t>(buffer);
  if (number >= buffers_free_.size()) buffers_free_.resize(number + 1);
  buffers_free_[number] = clock_.now();
  actions_.add(Kind::Release, unit, moment(), Stream::Compute, buffer);
}

void TimedPerformer::open_gradients(UnitId unit, int buffer) {
  units_[unit].has_late = false;
  actions_.add(Kind::Open, unit, moment(), Stream::Compute, buffer);
}

// It reads the results of the computing stream.
void TimedPerformer::reduce(UnitId unit, int buffer) {
  const double ready = std::max(clock_.host(), clock_.now());
  TransferStream& stream = clock_.reductions();
  Unit& state = units_[unit];
  state.reduction =
      begin_transfer(Kind::Reduce, stream, unit, buffer, ready, facts_.alone() ? 0 : of_unit(durations_.reduce, unit));
  state.reduction.count = exchange_.add(Deed::Reduce, unit, ready);
  if (!facts_.replicated()) return;
  const double seconds = of_unit(durations_.replicate, unit);
  state.replicated = durations_.beside ? stream.at(stream.begin(ready, seconds)).end : state.replicated + seconds;
}

Begun TimedPerformer::has_begun(UnitId unit) {
  const bool begun = exchange_.await(Deed::Reduce, unit, units_[unit].reduction.count, Who::Everyone, "a reduction",
                                     /*may_stall=*/true);
  actions_.add(Kind::WaitPeers, unit, moment(), Stream::Reductions);
  return begun ? Begun::Yes : Begun::PeerStalls;
}

void TimedPerformer::await_reduction(UnitId unit, int, bool) {
  has_gradients_ = true;
  const Transfer& reduction = units_[unit].reduction;
  exchange_.await(Deed::Reduce, unit, reduction.count, Who::Everyone, "a reduction");
  const double peers = exchange_.latest(Deed::Reduce, unit, reduction.count, Who::Everyone);
  wait_for(Kind::WaitReduce, unit, end_of(clock_.reductions(), reduction, peers),
           facts_.alone() ? 0 : of_unit(durations_.reduce, unit), Cause::Reductions);
}

void TimedPerformer::await_sums() {
  double until = clock_.now();
  for (Unit& unit : units_) {
    until = durations_.beside ? std::max(until, unit.replicated) : until + unit.replicated;
    unit.replicated = 0;
  }
  actions_.add(Kind::WaitReplicas, -1, clock_.wait(until, Cause::EndOfBackward));
}

bool TimedPerformer::begin_write(UnitId unit, Readers readers) {
  const size_t version = exchange_.add(Deed::Leave, unit, clock_.now());
  if (readers == Readers::Ask) return exchange_.have_all(Deed::Leave, unit, version, Who::Sharers);
  if (facts_.one_sided) exchange_.await(Deed::Leave, unit, version, Who::Sharers, "the readers of a shard");
  const double peers = facts_.one_sided ? exchange_.latest(Deed::Leave, unit, version, Who::Sharers) : 0;
  actions_.add(Kind::WaitReaders, unit, clock_.host_waits(peers, Cause::Idle));
  return true;
}

void TimedPerformer::publish(UnitId unit) {
  exchange_.add(Deed::Publish, unit, clock_.now());
  actions_.add(Kind::Publish, unit, moment());
}

void TimedPerformer::update(UnitId unit, bool) {
  actions_.add(Kind::Update, unit, clock_.work(of_unit(durations_.update, unit), Cause::Optimizer));
  publish(unit);
}

}  // namespace fsdp::plan
