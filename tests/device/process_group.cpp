#include "device/process_group.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "device/accesses.h"
#include "device/host_tensor.h"
#include "device/pending.h"
#include "device/streams.h"

namespace fsdp::testing::device {

namespace {

using c10d::Work;
using WorkPtr = c10::intrusive_ptr<Work>;
using Tensors = std::vector<at::Tensor>;

// The bytes of one exchange. The first caller waits for them.
class Bytes {
 public:
  Bytes(WorkPtr gloo, HostTensors tensors) : gloo_(std::move(gloo)), tensors_(std::move(tensors)) {}
  bool wait(std::chrono::milliseconds timeout) {
    std::lock_guard lock(mutex_);
    if (!is_over_) gloo_->wait(timeout);
    is_over_ = true;
    return true;
  }
  // Gloo's work of a reduce-scatter never reports its end.
  bool is_over() const { return is_over_ || gloo_->isCompleted(); }
  Work& gloo() { return *gloo_; }

 private:
  std::mutex mutex_;
  std::atomic<bool> is_over_ = false;
  WorkPtr gloo_;
  HostTensors tensors_;  // of the device, which live until the exchange is over
};

class DeviceWork final : public Work {
 public:
  DeviceWork(std::shared_ptr<Bytes> bytes, c10::Stream stream)
      : bytes_(std::move(bytes)),
        stream_(stream),
        end_(c10::kCUDA),
        pending_([bytes = bytes_] { bytes->wait(kNoTimeout); }) {
    end_.record(stream_);
  }
  // As NCCL's: an exchange without a wait takes place, too.
  ~DeviceWork() override {
    try {
      bytes_->wait(kNoTimeout);
    } catch (const std::exception&) {
      // It has no one to tell.
    }
  }

  bool isCompleted() override { return bytes_->is_over(); }
  bool isSuccess() const override { return bytes_->gloo().isSuccess(); }
  std::exception_ptr exception() const override { return bytes_->gloo().exception(); }
  void synchronize() override { wait(kNoTimeout); }
  bool wait(std::chrono::milliseconds timeout) override {
    bytes_->wait(timeout);
    end_.block(current_stream(stream_.device_index()));
    return true;
  }
  void blockCurrentStream() override { wait(kNoTimeout); }

 private:
  std::shared_ptr<Bytes> bytes_;
  c10::Stream stream_;
  c10::Event end_;
  PendingWork pending_;
};

class DeviceProcessGroup final : public c10d::Backend {
 public:
  DeviceProcessGroup(c10::intrusive_ptr<c10d::Backend> gloo, std::string name)
      : Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)), name_(std::move(name)) {}

  const std::string getBackendName() const override { return "nccl"; }
  void abort() override { gloo_->abort(); }
  void shutdown() override { gloo_->shutdown(); }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const bool is_source = getRank() == options.rootRank;
    return exchange("broadcast", is_source ? tensors : Tensors{}, is_source ? Tensors{} : tensors,
                    [&](HostTensors& host) {
                      Tensors on_host = all_of(host, tensors, !is_source);
                      return gloo_->broadcast(on_host, options);
                    });
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return exchange("all_reduce", {}, tensors, [&](HostTensors& host) {
      Tensors on_host = all_of(host, tensors, true);
      return gloo_->allreduce(on_host, options);
    });
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    return exchange("all_gather", {input}, {output}, [&](HostTensors& host) {
      at::Tensor host_output = host.of(output, true), host_input = host.of(input, false);
      return gloo_->_allgather_base(host_output, host_input, options);
    });
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    return exchange("reduce_scatter", {input}, {output}, [&](HostTensors& host) {
      at::Tensor host_output = host.of(output, true), host_input = host.of(input, false);
      return gloo_->_reduce_scatter_base(host_output, host_input, options);
    });
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override {
    return exchange("all_to_all", {input}, {output}, [&](HostTensors& host) {
      at::Tensor host_output = host.of(output, true), host_input = host.of(input, false);
      return gloo_->alltoall_base(host_output, host_input, output_sizes, input_sizes, options);
    });
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return exchange("reduce", {}, tensors, [&](HostTensors& host) {
      Tensors on_host = all_of(host, tensors, true);
      return gloo_->reduce(on_host, options);
    });
  }
  WorkPtr send(Tensors& tensors, int peer, int tag) override {
    return exchange("send", tensors, {}, [&](HostTensors& host) {
      Tensors on_host = all_of(host, tensors, false);
      return gloo_->send(on_host, peer, tag);
    });
  }
  WorkPtr recv(Tensors& tensors, int peer, int tag) override {
    return exchange("receive", {}, tensors, [&](HostTensors& host) {
      Tensors on_host = all_of(host, tensors, true);
      return gloo_->recv(on_host, peer, tag);
    });
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override { return gloo_->barrier(options); }

 private:
  static Tensors all_of(HostTensors& host, const Tensors& tensors, bool written) {
    Tensors all;
    for (const at::Tensor& tensor : tensors) all.push_back(host.of(tensor, written));
    return all;
  }

  c10::Stream stream_on(c10::DeviceIndex device) {
    if (!stream_) {
      stream_ = stream_from_pool(device, /*high_priority=*/true);
      name_stream(*stream_, name_);
    }
    return *stream_;
  }

  template <typename Begin>
  WorkPtr exchange(const char* what, const Tensors& inputs, const Tensors& outputs, Begin&& begin) {
    const at::Tensor& one = inputs.empty() ? outputs.at(0) : inputs[0];
    TORCH_CHECK(one.is_cuda(), name_, ": a tensor of ", one.device(), ", expected one of the device");
    const c10::Stream stream = stream_on(one.device().index());
    c10::Event before(c10::kCUDA);
    before.record(current_stream(stream.device_index()));
    before.block(stream);
    HostTensors host;
    WorkPtr gloo = begin(host);
    std::vector<Range> reads, writes;
    for (const at::Tensor& tensor : inputs) add_ranges(tensor, reads);
    for (const at::Tensor& tensor : outputs) add_ranges(tensor, writes);
    note_launch(stream, what, std::move(reads), std::move(writes));
    auto bytes = std::make_shared<Bytes>(std::move(gloo), std::move(host));
    return c10::make_intrusive<DeviceWork>(std::move(bytes), stream);
  }

  c10::intrusive_ptr<c10d::Backend> gloo_;
  std::string name_;
  std::optional<c10::Stream> stream_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_process_group(c10::intrusive_ptr<c10d::Backend> gloo, const std::string& name) {
  return c10::make_intrusive<DeviceProcessGroup>(std::move(gloo), name);
}

}  // namespace fsdp::testing::device
