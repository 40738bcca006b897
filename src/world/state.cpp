#include "world/state.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/rank_names.h"
#include "collectives/backends.h"
#include "collectives/circle_finder.h"
#include "collectives/pumps.h"
#include "world/device.h"
#include "world/this_host.h"

namespace fsdp::world {

namespace {

constexpr const char* kOnWhichHost = "on which host it is";

std::string key_of(const std::string& what, int rank) { return fmt::format("{}/{}", what, rank); }

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

State::State(Identity identity, std::string backend, std::chrono::milliseconds timeout,
             c10::intrusive_ptr<c10d::Store> store, std::vector<int> world_ranks, std::optional<torch::Device> device,
             std::string address, const State* parent, std::string name, std::string where)
    : identity_(identity),
      backend_(std::move(backend)),
      timeout_(timeout),
      store_(std::move(store)),
      world_ranks_(world_ranks.empty() ? all_ranks(identity.size) : std::move(world_ranks)),
      address_(std::move(address)),
      device_(device ? *device : take_own_device()),
      ranks_of_a_host_(ask_ranks_of_every_host()),
      shares_device_(ask_whether_devices_are_shared()),
      name_(std::move(name)),
      where_(std::move(where)),
      number_(std::hash<std::string>()(name_)),
      calls_(parent ? parent->calls_ : make_calls()),
      group_(connect("world", backend_, device_, own_group())) {
  calls_->open(own_group());
  if (!parent) return;
  before_calls_ = parent->before_calls_;
  told_of_calls_ = parent->told_of_calls_;
  folders_ = parent->folders_;
  held_ = parent->held_;
}

c10::intrusive_ptr<c10d::Store> State::store_under(const std::string& name) const {
  if (!store_) return {};
  return c10::make_intrusive<c10d::PrefixStore>(name, store_);
}

// A rank that finds none says so before it fails: the others would wait for it.
torch::Device State::take_own_device() const {
  try {
    return take_device(backend_, identity_.local_rank);
  } catch (const Error&) {
    if (on_several_hosts()) tell(kOnWhichHost, own_place("none"));
    throw;
  }
}

std::string State::own_place(const std::string& device) const {
  return encode({.machine = machine(),
                 .local_rank = identity_.local_rank,
                 .local_size = identity_.local_size,
                 .device = device,
                 .host = host_name()});
}

// Through the store; `what` it is about, as a clause.
void State::tell(const std::string& what, const std::string& text) const {
  store_->setTimeout(timeout_);
  store_->set(key_of(what, identity_.rank), std::vector<uint8_t>(text.begin(), text.end()));
}

// Every rank's text, in rank order.
std::vector<std::string> State::tell_every_rank(const std::string& what, const std::string& text) const {
  tell(what, text);
  std::vector<std::string> all;
  for (int rank = 0; rank < identity_.size; ++rank) {
    try {
      const std::vector<uint8_t> bytes = store_->get(key_of(what, rank));
      all.emplace_back(bytes.begin(), bytes.end());
    } catch (const Error&) {
      throw;  // another program wrote it
    } catch (const std::exception& failure) {
      const std::string reason = failure.what();
      throw collectives::PeerLost(
          fmt::format("{}{} did not say within {} ms {}: {}. Check that every rank has started.", message_prefix(),
                      text_of_rank(world_ranks_[rank]), timeout_.count(), what, reason.substr(0, reason.find('\n'))));
    }
  }
  return all;
}

int State::ask_ranks_of_every_host() const {
  if (!on_several_hosts()) return identity_.size;
  const std::string own = own_place(c10::DeviceTypeName(device_.type(), /*lower_case=*/true));
  std::vector<Place> places;
  for (const std::string& text : tell_every_rank(kOnWhichHost, own)) places.push_back(decode_place(text));
  check_same_kind_of_device(places);
  return ranks_of_every_host(places);
}

bool State::ask_whether_devices_are_shared() const {
  if (!store_ || device_.is_cpu() || identity_.size == 1) return false;
  const std::vector<std::string> all =
      tell_every_rank("which GPU it has",
                      place_of_gpu(backend_, machine(), collectives::name_of_gpu(device_), std::getenv("NCCL_HOSTID")));
  return std::set<std::string>(all.begin(), all.end()).size() < all.size();
}

// All worlds of a process that come from one show their waits on one board.
std::shared_ptr<collectives::WorldCalls> State::make_calls() const {
  auto calls = std::make_shared<collectives::WorldCalls>();
  if (store_ && identity_.size > 1) {
    auto board = collectives::make_store_board(store_under("waits"));
    calls->find_circles_by(collectives::make_circle_finder(std::move(board), world_ranks_[identity_.rank], *calls));
  }
  return calls;
}

collectives::WorldCalls::Place State::own_group() const { return {number_, world_ranks_, where_}; }

collectives::WorldCalls::Place State::place_of(const std::string& group, const std::string& what) const {
  return {std::hash<std::string>()(name_ + "/" + group), world_ranks_, what + " " + where_};
}

collectives::WorldCalls::Place State::place_of_model(const std::string& group) const {
  collectives::WorldCalls::Place place = place_of(group, "of a model");
  place.of_model = true;
  return place;
}

std::unique_ptr<collectives::Group> State::connect(const std::string& name, const std::string& backend,
                                                   torch::Device device, collectives::WorldCalls::Place place) {
  const collectives::PumpedWait pumped;
  return collectives::make_group(backend, {.store = store_under(name),
                                           .rank = identity_.rank,
                                           .size = identity_.size,
                                           .one_host = identity_.local_size == identity_.size,
                                           .ranks_of_a_host = ranks_of_a_host_,
                                           .address = address_,
                                           .timeout = timeout_,
                                           .device = device,
                                           .shares_device = shares_device_,
                                           .calls = calls_,
                                           .place = std::move(place),
                                           .world_ranks = world_ranks_});
}

std::shared_ptr<const memory::OffloadFolder> State::offload_folder(const std::filesystem::path& path) {
  std::error_code unknown;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(std::filesystem::absolute(path), unknown);
  std::weak_ptr<const memory::OffloadFolder>& known = (*folders_)[unknown ? path : whole];
  if (auto folder = known.lock()) return folder;
  const auto folder = std::make_shared<const memory::OffloadFolder>(path, world_ranks_[identity_.rank]);
  known = folder;
  return folder;
}

bool State::uses_nccl() const {
  return collectives::goes_over_nccl(
      {.store = {}, .size = identity_.size, .device = device_, .shares_device = shares_device_});
}

std::unique_ptr<collectives::Group> State::new_group() {
  const std::string name = fmt::format("group{}", children_++);
  return connect(name, backend_, device_, place_of_model(name));
}

std::unique_ptr<collectives::Group> State::new_host_group() {
  const std::string name = fmt::format("group{}", children_++);
  return connect(name, device_.is_cpu() ? backend_ : "auto", torch::kCPU, place_of_model(name));
}

State::Call::Call(State& state, const std::string& purpose) : state_(state) {
  state.run_before_call();
  const collectives::WorldCall call{state.number_, state.calls_->begin(state.number_, purpose), purpose};
  state.note_call(&call);
}

std::shared_ptr<Pending> State::run_beside(std::string purpose, Background::Call call) {
  if (!background_) {
    const collectives::WorldCalls::Place place = place_of("background", "beside the program");
    background_.emplace(connect("background", backend_, device_, place), calls_, place.group);
    calls_->open(place);
  }
  return background_->run(device_, std::move(purpose), std::move(call));
}

std::shared_ptr<Pending> State::keep(std::shared_ptr<Pending> pending) {
  pending_.push_back(pending);
  // The world outlives the call.
  const auto both = std::make_shared<std::pair<std::shared_ptr<State>, std::shared_ptr<Pending>>>(shared_from_this(),
                                                                                                  std::move(pending));
  return {both, both->second.get()};
}

// Calls of which the user has no handle any more. Throws the error of one that failed.
void State::complete_dropped() {
  std::exception_ptr failure;
  std::erase_if(pending_, [&failure](const std::shared_ptr<Pending>& one) {
    if (one.use_count() > 1) return false;
    try {
      if (!one->is_over()) return false;
      one->wait();
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
    return true;
  });
  if (failure) std::rethrow_exception(failure);
}

State::Call::~Call() {
  state_.note_call(nullptr);
  state_.calls_->end();
}

void State::note_call(const collectives::WorldCall* call) {
  std::erase_if(*told_of_calls_, [call](const NoteCall& note) { return !note(call); });
}

// For calls of other worlds: a rank may be in one of them while a peer waits in this one.
void State::tell_own_group() {
  if (std::exchange(tells_own_group_, true)) return;
  tell_of_calls([observer = weak_from_this()](const collectives::WorldCall* call) {
    const auto alive = observer.lock();
    const bool is_own = alive && call && call->world == alive->number_;
    if (alive && !is_own) alive->group().note_call(call);
    return alive != nullptr;
  });
}

void State::run_before_call() {
  complete_dropped();
  std::vector<std::function<bool()>> lasting;
  for (const auto& action : *before_calls_) {
    if (action()) lasting.push_back(action);
  }
  *before_calls_ = std::move(lasting);
}

std::shared_ptr<State> State::split(int color, int key, std::string where) {
  torch::Tensor mine = torch::tensor({int64_t{color}, int64_t{key}, host_fingerprint()}, torch::kInt64);
  std::vector<torch::Tensor> all = group_->all_gather(mine, "splits the world");
  const auto fact = [&all](int rank, int number) { return all[rank].const_data_ptr<int64_t>()[number]; };
  std::vector<int> members;
  for (int rank = 0; rank < identity_.size; ++rank) {
    if (fact(rank, 0) == color) members.push_back(rank);
  }
  std::stable_sort(members.begin(), members.end(), [&](int one, int other) { return fact(one, 1) < fact(other, 1); });
  Identity identity{.size = 0, .local_size = 0, .restarts = identity_.restarts};
  std::vector<int> world_ranks;
  for (const int rank : members) {
    if (rank == identity_.rank) {
      identity.rank = identity.size;
      identity.local_rank = identity.local_size;
    }
    ++identity.size;
    identity.local_size += fact(rank, 2) == fact(identity_.rank, 2);
    world_ranks.push_back(world_ranks_[rank]);
  }
  const std::string name = fmt::format("split{}/{}", children_++, color);
  if (where.empty()) where = fmt::format("in the split of ranks {}", fmt::join(world_ranks, ", "));
  auto split = std::make_shared<State>(identity, backend_, timeout_, store_under(name), std::move(world_ranks), device_,
                                       address_, this, name_ + "/" + name, std::move(where));
  tell_own_group();
  split->tell_own_group();
  return split;
}

}  // namespace fsdp::world
