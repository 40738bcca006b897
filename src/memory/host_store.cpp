// Copies a device's bytes to the host on one stream, and back on another, both beside the computation.
//
// A tensor on its way out is held until its copy ends. If more than kUnderWay bytes are on their way, the computation
// waits for the oldest copy, so the memory on the device stays bounded. When a tensor is fetched, the store begins to
// copy back the tensors that were put before it, up to kUnderWay bytes: the backward needs them next.
#include <torch/types.h>

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "memory/byte_store.h"
#include "memory/side_stream.h"

namespace fsdp::memory {

namespace {

constexpr int64_t kUnderWay = int64_t{128} << 20;  // bytes, in each direction
constexpr size_t kLeastUnderWay = 2;               // tensors, however large

class HostBytes;

class HostStore final : public ByteStore, public std::enable_shared_from_this<HostStore> {
 public:
  std::shared_ptr<StoredBytes> put(const torch::Tensor& bytes) override;
  torch::Tensor get(HostBytes& wanted);
  void forget(HostBytes& gone) noexcept;

 private:
  struct Streams {
    SideStream out, in;
  };
  void let_leave();
  void bring_back(HostBytes& bytes);
  void bring_back_before(int64_t number);

  std::mutex mutex_;
  // Guarded by the mutex.
  std::optional<Streams> streams_;
  std::map<int64_t, HostBytes*> stored_;  // by number
  std::deque<HostBytes*> leaving_;
  int64_t next_number_ = 0, bytes_leaving_ = 0, bytes_back_ = 0;
};

// The store's lock covers the members.
class HostBytes final : public StoredBytes {
 public:
  HostBytes(std::shared_ptr<HostStore> store, int64_t number, const torch::Tensor& bytes)
      : store_(std::move(store)),
        number_(number),
        numel_(bytes.numel()),
        device_(bytes.device()),
        original_(bytes.storage().getWeakStorageImpl()),
        source_(bytes),
        user_(current_stream(device_)),
        host_(torch::empty({numel_}, torch::dtype(torch::kUInt8).pinned_memory(!device_.is_cpu()))) {}
  ~HostBytes() override { store_->forget(*this); }
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;

  torch::Tensor get() override { return store_->get(*this); }

 private:
  friend HostStore;
  using WeakStorage = decltype(std::declval<c10::Storage>().getWeakStorageImpl());

  // All later work of the computation begins after the copy to the host.
  void leave() {
    left_.hold(user_);
    source_.reset();
  }

  std::shared_ptr<HostStore> store_;
  int64_t number_, numel_;
  torch::Device device_;
  WeakStorage original_;  // of the tensor that was put; while it lives, the copy is not read
  torch::Tensor source_;  // until its copy has ended
  std::optional<c10::Stream> user_;
  torch::Tensor host_;
  Moment left_;
  torch::Tensor back_;  // on the device, for the next `get`
  Moment arrived_;
};

std::shared_ptr<StoredBytes> HostStore::put(const torch::Tensor& bytes) {
  const torch::NoGradGuard no_grad;
  std::shared_ptr<HostBytes> one;  // if a call throws, destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  one = std::make_shared<HostBytes>(shared_from_this(), next_number_++, bytes);
  if (!streams_) streams_ = Streams{SideStream(one->device_), SideStream(one->device_)};
  one->left_ = streams_->out.run(Moment::of(one->user_),
                                 [&] { one->host_.copy_(bytes, /*non_blocking=*/!one->device_.is_cpu()); });
  stored_.emplace(one->number_, one.get());
  leaving_.push_back(one.get());
  bytes_leaving_ += one->numel_;
  let_leave();
  return one;
}

void HostStore::let_leave() {
  const auto is_full = [&] { return bytes_leaving_ > kUnderWay && leaving_.size() > kLeastUnderWay; };
  while (!leaving_.empty() && (is_full() || leaving_.front()->left_.is_over())) {
    leaving_.front()->leave();
    bytes_leaving_ -= leaving_.front()->numel_;
    leaving_.pop_front();
  }
}

torch::Tensor HostStore::get(HostBytes& wanted) {
  const torch::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  bring_back(wanted);
  bytes_back_ -= wanted.numel_;
  bring_back_before(wanted.number_);
  wanted.arrived_.hold(current_stream(wanted.device_));
  return std::exchange(wanted.back_, {});
}

// The memory belongs to the computation's stream: its earlier work ends before the copy begins.
void HostStore::bring_back(HostBytes& bytes) {
  if (bytes.back_.defined()) return;
  bytes.user_ = current_stream(bytes.device_);
  bytes.back_ = torch::empty({bytes.numel_}, torch::dtype(torch::kUInt8).device(bytes.device_));
  bytes.left_.hold(bytes.user_);
  bytes.arrived_ = streams_->in.run(Moment::of(bytes.user_),
                                    [&] { bytes.back_.copy_(bytes.host_, /*non_blocking=*/!bytes.device_.is_cpu()); });
  bytes_back_ += bytes.numel_;
}

void HostStore::bring_back_before(int64_t number) {
  for (auto next = stored_.lower_bound(number); next != stored_.begin() && bytes_back_ < kUnderWay;) {
    HostBytes& bytes = *(--next)->second;
    if (bytes.device_.is_cpu()) return;  // it is there
    if (bytes.original_.expired()) bring_back(bytes);
  }
}

// The graph is gone. The computation may use the memory of the copies again only after they end.
void HostStore::forget(HostBytes& gone) noexcept {
  const std::lock_guard lock(mutex_);
  stored_.erase(gone.number_);
  if (std::erase(leaving_, &gone) > 0) {
    bytes_leaving_ -= gone.numel_;
    gone.leave();
  }
  if (!gone.back_.defined()) return;
  gone.arrived_.hold(gone.user_);
  bytes_back_ -= gone.numel_;
}

}  // namespace

std::shared_ptr<ByteStore> host_store() { return std::make_shared<HostStore>(); }

}  // namespace fsdp::memory
